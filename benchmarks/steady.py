"""Steady training step against CPU's eager step at its fastest optimizer setting, after a warm-up."""

import time

from benchmarks.measure import compare, geomean
from benchmarks.training import Trainer, fastest_cpu

MODELS = ["gpt", "convnext", "llama", "lstm", "unet"]
HELP = (
    "steady step: device against CPU (or its own eager mode), with a null run of the reference against itself"
)


def references(options, model: str):
    """What is compared with, and its double for the null run."""
    if options.against == "cpu":
        return fastest_cpu(model, options.size), fastest_cpu(model, options.size, tries=1)
    return tuple(Trainer(model, options.size, options.device) for _ in range(2))


def run(options, out) -> None:
    ratios = []
    for model in options.models or MODELS:
        reference, double = references(options, model)
        for _ in range(3):
            reference(), double()
        out(
            f"{model:12} null ({options.against} against itself)   {compare(double, reference, options.pairs)}"
        )
        for mode in options.modes:
            if mode == options.against:
                continue
            ours = Trainer(model, options.size, options.device, mode=mode)
            until = time.monotonic() + options.warmup
            while time.monotonic() < until or ours.steps < 3:
                ours()
            result = compare(ours, reference, options.pairs)
            out(f"{model:12} {options.device} {mode:10}        {result}")
            if mode == "adaptive":
                ratios.append(result.ratio)
    if ratios:
        out(f"geomean of the {options.against}'s time over ours, adaptive: {1 / geomean(ratios):.3f}")
