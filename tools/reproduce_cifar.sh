#!/bin/sh
# Train CNN-9, plain and with sigmoid(0.3) SphereConvs, through the paper's 64,000-step CIFAR-10 protocol on a GPU and
# record final and best accuracy and steps/s in results/paper.table1.json. Go on after an interruption: the same command.
#
#   tools/reproduce_cifar.sh DATA [further options of `hypersphere reproduce`]
#
# DATA holds cifar-10-batches-py (tools/unpack_cifar.py makes it from mosaics). Works without installing the package.
set -eu
data=$1
shift
here=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH="$here/src${PYTHONPATH:+:$PYTHONPATH}"
for cell in original.softmax sigmoid0.3.softmax; do
    python3 -m hypersphere reproduce paper.table1 --cells "$cell" --data.root "$data" \
        --run.precision bfloat16 --run.channels-last yes --run.log-every 1000 "$@"
done
