"""The first hundred steps with every compile ten seconds slower, against DENDRITE_TIER=0 without that."""

import statistics
import tempfile

from benchmarks.child import plugin_environment, train

MODELS = ["gpt", "conv", "llama"]
HELP = "slow compiler: the first 100 steps, adaptive, each compile 10 s slower, against DENDRITE_TIER=0"
STEPS, DELAY_MS = 100, 10_000


def run(options, out) -> None:
    rounds = max(2, options.pairs // 20)
    for model in options.models or MODELS:
        rows = []
        for i in range(rounds):
            times = {}
            for side in ("slow", "tier 0") if i % 2 else ("tier 0", "slow"):
                with tempfile.TemporaryDirectory() as cache:
                    more = (
                        plugin_environment(COMPILE_DELAY_MS=DELAY_MS) | {"DENDRITE_TARGET": "embedded"}
                        if side == "slow"
                        else {"DENDRITE_TIER": "0"}
                    )
                    mode = "adaptive" if side == "slow" else "eager"
                    done = train(
                        model, options.size, options.device, mode, STEPS, DENDRITE_CACHE_DIR=cache, **more
                    )
                times[side] = done["total"]
            rows.append((times["slow"], times["tier 0"]))
        ratio = statistics.median(a / b for a, b in rows)
        ours, reference = (statistics.median(column) for column in zip(*rows, strict=True))
        out(f"{model:12} {ours:.2f} s vs {reference:.2f} s, ratio {ratio:.3f}, {rounds} rounds")
