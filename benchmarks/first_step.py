"""Time to the first loss on the host, in fresh processes with an empty cache, device start included."""

import statistics
import tempfile

from benchmarks.child import train

MODELS = ["gpt", "conv", "llama", "lstm", "unet", "convnext"]
HELP = "first step: new process and empty cache, from the end of imports to the first loss on the host"


def first_step(model: str, size: str, device: str, mode: str) -> float:
    with tempfile.TemporaryDirectory() as cache:
        return train(model, size, device, mode, DENDRITE_CACHE_DIR=cache)["first"]


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
