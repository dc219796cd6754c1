"""A second process on the disk cache that the first one filled, and CPU eager beside it.

A process's first step begins with what PyTorch imports when an optimizer is made (seconds), on CPU as well: so the
step is reported without it, too, and each figure with CPU eager's own.
"""

import statistics
import tempfile

from benchmarks.child import train

MODELS = ["gpt", "conv", "llama"]
HELP = "warm start: a second process on the first one's cache folder"
STEPS = 20


def step(result: dict) -> float:
    """The first step alone."""
    return result["first"] - result["built"]


def run(options, out) -> None:
    for model in options.models or MODELS:
        cpu = train(model, options.size, "cpu", "eager", STEPS, 0.0)
        cpu_steady = statistics.median(cpu["times"][-10:])
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
                f"{model:12} {mode:10} first step {second['first']:.3f} s (cold {first['first']:.3f} s, CPU eager "
                f"{cpu['first']:.3f} s), once the model is built {step(second):.3f} s: {step(second) / steady:.1f} "
                f"times the steady {steady:.3f} s (CPU eager {step(cpu):.3f} s: {step(cpu) / cpu_steady:.1f} times)"
            )
            out(
                f"{'':23} compiles {stats['compiles']} (cold "
                f"{first['stats']['compiles']}), workers {stats['workers_started']}, second step compiled "
                f"{second['compiled_share'][0]:.0%} (first process's last {first['compiled_share'][-1]:.0%})"
            )
