"""Nodes and time of deployed ResNet-18 twins beside the plain network, on a CPU, one image at a time.

    python benchmarks/deployment.py [--rounds 20] [--threads 1] [--out FILE]

Each twin is measured as ``torch.onnx.export`` writes it, after ``hs.nn.fold``, and in eager mode both ways. Rounds of
all networks are interleaved, so that a busy machine slows all of them alike; medians, quartiles and the fastest round
are reported, and the plain network once more beside itself ("A/A"). Times are of the process's own CPU, not of the
clock.
"""

from __future__ import annotations

import argparse
import json
import logging
import platform
import statistics
import time
import warnings
from importlib.metadata import version
from pathlib import Path

import onnxruntime
import torch

import hypersphere as hs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--size", type=int, default=224, help="of the image")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "deployment.json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    x = torch.randn(1, 3, options.size, options.size)
    networks = {"plain": hs.models.create("resnet18", num_classes=10, conv="plain").eval()}
    for angular in ("cosine", "sigmoid"):
        networks[angular] = hs.models.create("resnet18", num_classes=10, conv="sphere", angular=angular).eval()
        networks[f"{angular}, folded"] = hs.nn.fold(networks[angular])
    networks["A/A"] = networks["plain"]  # the noise: no difference smaller than its spread means anything
    files = {name: export(model, x) for name, model in networks.items()}
    sessions = {name: session(content, options.threads) for name, content in files.items()}
    times: dict[str, dict[str, list[float]]] = {name: {"onnxruntime": [], "eager": []} for name in networks}
    with torch.inference_mode():
        for turn in range(options.rounds + 2):
            for name, model in networks.items():
                runs = {"onnxruntime": lambda n=name: sessions[n](x), "eager": lambda m=model: m(x)}
                for way, run in runs.items():
                    start = time.process_time()
                    run()
                    if turn >= 2:
                        times[name][way].append(time.process_time() - start)
    rows = {name: row(name, times, files) for name in networks}
    report = {
        "settings": {name: value for name, value in vars(options).items() if name != "out"},
        "machine": machine(),
        "networks": rows,
    }
    print(json.dumps(report, indent=2))
    if options.out:
        options.out.write_text(json.dumps(report, indent=2) + "\n")


def export(model: torch.nn.Module, x: torch.Tensor) -> object:
    logging.disable(logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.onnx.export(model, (x,), dynamo=True, verbose=False).model_proto


def session(content: object, threads: int) -> object:
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads
    ready = onnxruntime.InferenceSession(content.SerializeToString(), settings, providers=["CPUExecutionProvider"])
    name = ready.get_inputs()[0].name
    return lambda x: ready.run(None, {name: x.numpy()})


def row(name: str, times: dict[str, dict[str, list[float]]], files: dict[str, object]) -> dict[str, object]:
    nodes, plain = (len(files[key].graph.node) for key in (name, "plain"))
    found: dict[str, object] = {"nodes": nodes, "nodes more than plain": nodes - plain}
    for way, values in times[name].items():
        low, middle, high = statistics.quantiles(values, n=4)
        ratios = [a / b for a, b in zip(values, times["plain"][way], strict=True)]  # neighbours in time
        found[way] = {
            "median ms": round(1e3 * middle, 2),
            "quartiles ms": [round(1e3 * low, 2), round(1e3 * high, 2)],
            "fastest ms": round(1e3 * min(values), 2),
            "times plain": round(statistics.median(ratios), 3),
            "fastest over fastest of plain": round(min(values) / min(times["plain"][way]), 3),
            "quartiles of times plain": [round(q, 3) for q in statistics.quantiles(ratios, n=4)[::2]],
        }
    return found


def machine() -> dict[str, str]:
    packages = {name: version(name) for name in ("torch", "onnx", "onnxscript", "onnxruntime")}
    return {"python": platform.python_version(), "processor": platform.machine(), **packages}


if __name__ == "__main__":
    main()
