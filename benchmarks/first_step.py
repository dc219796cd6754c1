"""Time to the first loss on the host, in fresh processes with an empty cache, device start included."""

import os
import statistics
import subprocess
import sys
import tempfile

MODELS = ["gpt", "conv", "llama", "lstm", "unet", "convnext"]
HELP = "first step: new process and empty cache, from the end of imports to the first loss on the host"

CHILD = """
import sys, time
import torch
from benchmarks.training import Trainer
model, size, device, mode = sys.argv[1:]
begin = time.perf_counter()
Trainer(model, size, device, mode=mode)()
print(time.perf_counter() - begin)
"""


def first_step(model: str, size: str, device: str, mode: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            [sys.executable, "-c", CHILD, model, size, device, mode],
            env={**os.environ, "XDG_CACHE_HOME": cache},
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise RuntimeError(f"{model} on {device} {mode}: {done.stderr.strip().splitlines()[-1]}")
    return float(done.stdout.split()[-1])


def run(options, out) -> None:
    pairs = max(2, options.pairs // 10)  # a process each
    for model in options.models or MODELS:
        for mode in options.modes:
            rows = []
            for _ in range(pairs):
                ours = first_step(model, options.size, options.device, mode)
                rows.append((ours, first_step(model, options.size, "cpu", "eager")))
            ratio = statistics.median(a / b for a, b in rows)
            ours, cpu = (statistics.median(column) for column in zip(*rows, strict=True))
            out(f"{model:12} {mode:10} {ours:.3f} s vs CPU {cpu:.3f} s, ratio {ratio:.2f}, {pairs} pairs")
