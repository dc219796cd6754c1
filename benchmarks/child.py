"""Training in a process of its own: a target, a cache folder and a plugin are chosen once per process.

`train(...)` runs one and returns what it measured; `start(...)` and `finish(...)` are its halves, for several at once.
"""

import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
SHIM = "libdendrite_shim_pjrt.so"


def start(model: str, size: str, device: str, mode: str, steps: int = 1, warmup: float = 0.0, **environment):
    """`steps` steps; with `warmup`, more until so many seconds have passed and nothing is left to compile.
    `environment` is added to the process's own."""
    return subprocess.Popen(
        [sys.executable, "-m", "benchmarks.child", model, size, device, mode, str(steps), str(warmup)],
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process) -> dict:
    output, errors = process.communicate()
    if process.returncode:
        last = (errors.strip().splitlines() or ["no message"])[-1]
        raise RuntimeError(f"{' '.join(process.args[3:])}: exit code {process.returncode}: {last}")
    return json.loads(output.splitlines()[-1])


def train(*args, **kwargs) -> dict:
    return finish(start(*args, **kwargs))


def share_compiled(ops_by_tier: dict) -> float:
    """The part of the operators that ran in compiled snippets."""
    total = sum(ops_by_tier.values())
    return (
        sum(n for tier, n in ops_by_tier.items() if str(tier) not in ("0", "host")) / total if total else 0.0
    )


def plugin_environment(**settings) -> dict[str, str]:
    """Settings under which a process compiles through the shim plugin (see csrc/testing/shim_plugin)."""
    found = sorted((ROOT / "build").glob(f"*/{SHIM}"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise RuntimeError(f"{SHIM} is not built: run `make build`")
    from fastatomstruct_xla_cpu import __path__ as folders

    real = pathlib.Path(next(iter(folders))) / "libpjrt_cpu.so"
    named = {f"DENDRITE_SHIM_{name}": str(value) for name, value in settings.items()}
    return {"DENDRITE_PJRT_PLUGIN": str(found[-1]), "DENDRITE_SHIM_TARGET": str(real), **named}


def resident_kb() -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))


def main() -> None:
    import torch

    from benchmarks.training import Trainer
    from examples.demo.train import memory_kb, reset_peak_memory

    model, size, device, mode, steps, warmup = sys.argv[1:]
    on_device = device != "cpu"
    reset_peak_memory()
    resident = [resident_kb()]
    begin = time.perf_counter()
    trainer = Trainer(model, size, device, mode=mode)
    built = time.perf_counter() - begin
    trainer()
    first, times, tiers = time.perf_counter() - begin, [], []
    while len(times) + 1 < int(steps) or time.perf_counter() - begin < float(warmup):
        if on_device:
            torch.neuron.synchronize()
            before = torch.neuron.stats()["ops_by_tier"]
        step_begin = time.perf_counter()
        trainer()
        times.append(time.perf_counter() - step_begin)
        if on_device:
            after = torch.neuron.stats()["ops_by_tier"]
            tiers = [*tiers[:1], share_compiled({t: n - before.get(t, 0) for t, n in after.items()})]
        if len(times) in (int(steps) // 10, int(steps) - 1):
            resident.append(resident_kb())
    total = time.perf_counter() - begin
    while on_device and float(warmup) > 0 and torch.neuron.stats()["compiles_pending"]:
        time.sleep(0.01)  # a process that ends kills its compiles
    result = {
        "first": first,
        "built": built,  # of it, for the model and the optimizer, and for what PyTorch imports for them
        "times": times,
        "total": total,
        "peak_kb": memory_kb("VmHWM") - resident[0],
        "resident_kb": resident,
        "compiled_share": tiers,  # of the second step and of the last
        "stats": torch.neuron.stats() if on_device else None,
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
