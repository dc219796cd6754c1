"""What an operator costs the calling thread: its CPU time for tiny tensors, against CPU's own operators.

The device's work runs on other threads, so the thread's clock counts capture alone. Each burst ends before a
bound on queued work would make the caller wait; the wait for the stream is outside the timed part.
"""

import time

import torch

from benchmarks.measure import compare, geomean
from benchmarks.training import execution_mode, synchronize

HELP = "capture: the calling thread's CPU time per operator, tiny tensors"
BURST = 200


def operators(device: str):
    x, y = torch.ones(8, 8, device=device), torch.ones(8, 8, device=device)
    w = torch.ones(8, 8, device=device, requires_grad=True)
    linear = torch.nn.functional.linear
    return {
        "add": lambda: x + y,
        "add_ scalar": lambda: x.add_(1.0),
        "view": lambda: x.view(64),
        "slice": lambda: x[1:3],
        "relu": lambda: torch.relu(x),
        "linear": lambda: linear(x, y),
        "sum": x.sum,
        "mul, autograd": lambda: w * y,
        "linear, autograd": lambda: linear(x, w),
    }


def burst(call):
    def step():
        for _ in range(BURST):
            call()

    return step


def run(options, out) -> None:
    ours, reference = operators(options.device), operators("cpu")
    ratios = []

    def between():
        synchronize(options.device)

    for mode in options.modes:
        if mode == "compiled":
            continue
        for name in reference:
            sides = burst(ours[name]), burst(reference[name])
            with execution_mode(options.device, mode):
                sides[0]()
                result = compare(*sides, options.pairs, time.thread_time, between)
            per_call = f"{result.ours / BURST * 1e6:6.2f} us vs {result.reference / BURST * 1e6:6.2f} us"
            out(
                f"{mode:10} {name:18} {per_call}, ratio {result.ratio:.2f} [{result.low:.2f}, {result.high:.2f}]"
            )
            ratios.append(result.ratio)
    if ratios:
        out(f"geomean of ratios: {geomean(ratios):.3f}")
