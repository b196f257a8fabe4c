set -u
cd .wt/evid/benchmarks
export PYTHONPATH=../src:../../../.gpusite PYTHONUNBUFFERED=1
L=/tmp/hypersphere_benchmarks_$(id -u).lock
( flock -s $L timeout 80 python -m pytest -n 4 -q -p no:cacheprovider ../tests/train/test_train_gpu.py ../tests/energy/test_energy_kernels.py -k "later or energy_kernels" > $OUT/tests.log 2>&1 ) &
timeout 140 python gpu_energy.py --rounds 5 --out $OUT/gpu_energy_cuda.json > $OUT/energy.log 2>&1 &
timeout 140 python gpu_orthogonal.py --quick --parts steps --kernels --out $OUT/orth.json > $OUT/orth.log 2>&1
wait
tail -5 $OUT/tests.log; grep -v Warn $OUT/energy.log | tail -40; grep -E "failed|Error|measured" $OUT/orth.log | tail; python - <<'P'
import json,os
r=json.load(open(os.environ["OUT"]+"/orth.json")).get("steps",{})
for k,v in r.items(): print(k,{a:b for a,b in v.items() if a!="kernels_us"})
P
