"""A second process on the disk cache that the first one filled."""

import statistics
import tempfile

from benchmarks.child import train

MODELS = ["gpt", "conv", "llama"]
HELP = "warm start: a second process on the first one's cache folder"
STEPS = 20


def run(options, out) -> None:
    for model in options.models or MODELS:
        for mode in options.modes:
            if mode == "eager":
                continue
            with tempfile.TemporaryDirectory() as cache:
                first, second = (
                    train(
                        model,
                        options.size,
                        options.device,
                        mode,
                        STEPS,
                        warmup,
                        DENDRITE_CACHE_DIR=cache,
                    )
                    for warmup in (options.warmup, 0.0)
                )
            steady = statistics.median(first["times"][-10:])
            stats = second["stats"]
            out(
                f"{model:12} {mode:10} first step {second['first']:.3f} s (cold {first['first']:.3f} s, steady "
                f"{steady:.3f} s: {second['first'] / steady:.1f} times), compiles {stats['compiles']} (cold "
                f"{first['stats']['compiles']}), workers {stats['workers_started']}, second step compiled "
                f"{second['compiled_share'][0]:.0%} (first process's last {first['compiled_share'][-1]:.0%})"
            )
