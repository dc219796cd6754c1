"""Trains one workload in one mode, in this process, and reports as JSON lines: progress on standard output, the
result in a file. A fresh process per run keeps statistics, caches in memory and peak memory clean.

    python -m examples.demo.train gpt adaptive result.json [--steps N]
"""

import argparse
import contextlib
import inspect
import json
import pathlib
import statistics
import time

import torch

from examples.demo.models import WORKLOADS

MODES = ["cpu", "eager", "adaptive", "compiled"]
STEADY_TRACE_STEPS = 3


def memory_kb(field: str) -> int:
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(field + ":"))


def reset_peak_memory() -> None:
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def start_mode(mode: str) -> str:
    """Returns the device."""
    if mode == "cpu":
        return "cpu"
    if not hasattr(torch, "neuron"):
        raise RuntimeError("the device neuron is not there: run `make build`")
    torch.neuron.set_execution_mode("adaptive" if mode == "adaptive" else "eager")
    return "neuron"


class Caller:
    """The calling thread's lane of the timeline: what the loop below was busy with. The device's trace runs on
    the same clock and holds the other lanes."""

    def __init__(self):
        self.events: list[dict] = []

    @contextlib.contextmanager
    def busy(self, name: str):
        line = inspect.currentframe().f_back.f_back.f_lineno
        begin = time.monotonic()
        yield
        self.events.append(
            {"lane": "caller", "name": name, "begin": begin, "end": time.monotonic()}
            | {"site": f"{pathlib.Path(__file__).name}:{line}", "tier": None}
        )


def window(events: list[dict], begin: float, end: float) -> list[dict]:
    """What happened between the two, cut off at its borders: a compile may outlast the trace that saw it start."""
    return [
        e | {"begin": max(begin, e["begin"]), "end": min(end, e["end"])}
        for e in events
        if e["end"] > begin and e["begin"] < end
    ]


def train(name: str, mode: str, steps: int, progress) -> dict:
    """Runs and measures. Times begin here, after the imports: device start and transfers count."""
    workload = WORKLOADS[name]
    reset_peak_memory()
    resident_before = memory_kb("VmRSS")
    begin = time.perf_counter()
    device = start_mode(mode)
    on_neuron = device == "neuron"
    synchronize = torch.neuron.synchronize if on_neuron else lambda: None

    torch.manual_seed(0)
    model = workload.make().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=workload.learning_rate)
    run = torch.compile(model, backend="neuron") if mode == "compiled" else model
    trace_until = max(1, steps // 4)
    caller, events, windows = Caller(), [], {}
    if on_neuron:
        torch.neuron.reset_stats()
        torch.neuron.trace_start()
        windows["start"] = (time.monotonic(), 0.0)

    losses, times, first_step = [], [], 0.0
    for step in range(steps):
        if on_neuron and step == steps - STEADY_TRACE_STEPS > trace_until:
            torch.neuron.trace_start()
            windows["steady"] = (time.monotonic(), 0.0)
        batch = workload.batch(step)
        step_begin = time.perf_counter()
        with caller.busy("forward"):
            loss = run(*(t.to(device) for t in batch))
        with caller.busy("backward"):
            loss.backward()
        with caller.busy("optimizer"):
            optimizer.step()
            optimizer.zero_grad()
        with caller.busy("waiting"):
            synchronize()
            losses.append(loss.item())
        times.append(time.perf_counter() - step_begin)
        if step == 0:
            first_step = time.perf_counter() - begin
        if on_neuron and step + 1 == trace_until:
            events += torch.neuron.trace_stop()
            windows["start"] = (windows["start"][0], time.monotonic())
        progress(step + 1, losses[-1], times[-1])
    if "steady" in windows:
        events += torch.neuron.trace_stop()
        windows["steady"] = (windows["steady"][0], time.monotonic())

    untraced = times[steps // 2 : steps - STEADY_TRACE_STEPS] or times[steps // 2 :]
    return {
        "losses": losses,
        "first_step_seconds": first_step,
        "steady_step_seconds": statistics.median(untraced),
        "peak_memory_bytes": max(0, memory_kb("VmHWM") - resident_before) * 1024,
        "stats": torch.neuron.stats() if on_neuron else None,
        "traces": {part: window(caller.events + events, *span) for part, span in windows.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", choices=WORKLOADS)
    parser.add_argument("mode", choices=MODES)
    parser.add_argument("result")
    parser.add_argument("--steps", type=int)
    args = parser.parse_args()
    if args.workload == "bert":
        # Imported before the clock starts, like torch itself.
        import transformers.models.bert.modeling_bert  # noqa: F401
    WORKLOADS[args.workload].batch(0)  # reads the data, before the clock starts as well

    def progress(step: int, loss: float, seconds: float) -> None:
        print(json.dumps({"step": step, "loss": loss, "seconds": seconds}), flush=True)

    result = train(args.workload, args.mode, args.steps or WORKLOADS[args.workload].steps, progress)
    with open(args.result, "w") as file:
        json.dump(result, file)


if __name__ == "__main__":
    main()
