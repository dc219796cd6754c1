"""Runs benchmark cases: prints machine, versions, and both sides of each comparison.

python -m benchmarks.run                         every case
python -m benchmarks.run steady --models gpt --modes adaptive --size bench --cores 1
python -m benchmarks.run steady --against eager --modes adaptive     the device against its own eager mode
DENDRITE_TARGET=opaque python -m benchmarks.run steady --against eager --modes adaptive
python -m benchmarks.run --device cpu            CPU against itself: every ratio should be near 1
"""

import argparse
import os
import platform

CASES = [
    "steady",
    "first_step",
    "capture",
    "memory",
    "slow_compiler",
    "warm_start",
    "processes",
    "recompiles",
]
MODES = ["eager", "adaptive", "compiled"]


def processor() -> str:
    with open("/proc/cpuinfo") as file:
        return next((line.split(":")[1].strip() for line in file if line.startswith("model name")), "unknown")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.run", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("cases", nargs="*", help=f"out of {', '.join(CASES)}; all if none is named")
    parser.add_argument("--device", default="neuron")
    parser.add_argument("--models", type=lambda s: s.split(","), help="instead of each case's own list")
    parser.add_argument("--modes", type=lambda s: s.split(","), default=MODES)
    parser.add_argument("--size", default="demo", help="test, demo or bench (200 ms a step or more)")
    parser.add_argument("--against", choices=["cpu", "eager"], default="cpu", help="steady: the other side")
    parser.add_argument(
        "--steps", type=int, help="memory: steps of each process; as many as pairs if not given"
    )
    parser.add_argument("--pairs", type=int, default=60)
    parser.add_argument("--warmup", type=float, default=30.0, help="seconds before a steady step is timed")
    parser.add_argument("--cores", type=int, help="pin to this many cores")
    options = parser.parse_args()
    unknown = [c for c in options.cases if c not in CASES] + [m for m in options.modes if m not in MODES]
    if unknown:
        parser.error(f"unknown: {', '.join(unknown)}")
    if options.cores:
        # Before torch starts its threads; children inherit both.
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
        os.environ["OMP_NUM_THREADS"] = str(options.cores)

    import importlib

    import torch

    cores = len(os.sched_getaffinity(0))
    print(f"{processor()}, {cores} core(s), {platform.system()} {platform.release()}")
    settings = {key: value for key, value in os.environ.items() if key.startswith("DENDRITE_")}
    print(f"torch {torch.__version__}, {torch.get_num_threads()} thread(s), size {options.size}, {settings}")
    for name in options.cases or CASES:
        case = importlib.import_module(f"benchmarks.{name}")
        print(f"\n{case.HELP}")
        case.run(options, lambda line: print("  " + line, flush=True))


if __name__ == "__main__":
    main()
