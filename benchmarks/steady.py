"""Steady training step against CPU's eager step at its fastest optimizer setting, after a warm-up."""

import time

from benchmarks.measure import compare, geomean
from benchmarks.training import Trainer, fastest_cpu

MODELS = ["gpt", "convnext", "llama", "lstm", "unet"]
HELP = "steady step: device against CPU, with a null run of CPU against CPU"


def run(options, out) -> None:
    ratios = []
    for model in options.models or MODELS:
        reference = fastest_cpu(model, options.size)
        null = compare(fastest_cpu(model, options.size, tries=1), reference, options.pairs)
        out(f"{model:12} null (CPU against CPU)   {null}")
        for mode in options.modes:
            ours = Trainer(model, options.size, options.device, mode=mode)
            until = time.monotonic() + options.warmup
            while time.monotonic() < until or ours.steps < 3:
                ours()
            result = compare(ours, reference, options.pairs)
            out(f"{model:12} {options.device} {mode:10}        {result}")
            if mode == "adaptive":
                ratios.append(result.ratio)
    if ratios:
        out(f"geomean of CPU's time over ours, adaptive: {1 / geomean(ratios):.3f}")
