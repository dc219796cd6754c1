"""Peak resident memory of training, as growth over the value after imports, one fresh process per side, and what
the process holds later on against earlier."""

from benchmarks.child import train

MODELS = ["gpt", "llama", "unet", "convnext"]
HELP = "memory: growth of peak resident memory over the value after imports, against CPU eager"


def run(options, out) -> None:
    steps = options.steps or options.pairs
    for model in options.models or MODELS:
        cpu = train(model, options.size, "cpu", "eager", steps)["peak_kb"] / 1024
        for mode in options.modes:
            done = train(model, options.size, options.device, mode, steps)
            ours, resident = done["peak_kb"] / 1024, done["resident_kb"]
            drift = f", resident from step {steps // 10} to {steps} {resident[-1] / resident[1] - 1:+.2%}"
            out(
                f"{model:12} {mode:10} {ours:7.0f} MiB vs CPU {cpu:7.0f} MiB, ratio {ours / cpu:.2f}"
                + (drift if len(resident) > 2 else "")
            )
