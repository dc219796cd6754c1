"""Peak resident memory of training, as growth over the value after imports, one fresh process per side."""

import subprocess
import sys

MODELS = ["gpt", "llama", "unet", "convnext"]
HELP = "memory: growth of peak resident memory over the value after imports, against CPU eager"

CHILD = """
import sys
from examples.demo.train import memory_kb, reset_peak_memory
from benchmarks.training import Trainer
model, size, device, mode, steps = sys.argv[1:]
reset_peak_memory()
before = memory_kb("VmRSS")
trainer = Trainer(model, size, device, mode=mode)
for _ in range(int(steps)):
    trainer()
print(memory_kb("VmHWM") - before)
"""


def peak_mib(model: str, size: str, device: str, mode: str, steps: int) -> float:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, model, size, device, mode, str(steps)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"{model} on {device} {mode}: {done.stderr.strip().splitlines()[-1]}")
    return int(done.stdout.split()[-1]) / 1024


def run(options, out) -> None:
    for model in options.models or MODELS:
        cpu = peak_mib(model, options.size, "cpu", "eager", options.pairs)
        for mode in options.modes:
            ours = peak_mib(model, options.size, options.device, mode, options.pairs)
            out(f"{model:12} {mode:10} {ours:7.0f} MiB vs CPU {cpu:7.0f} MiB, ratio {ours / cpu:.2f}")
