"""One comparison: the same call on the CPU and on the device, and where the device ran it."""

import contextlib
import os

import torch
from torch.utils import _pytree as pytree

from tests.conformance import judge
from tests.conformance.transform import move, to_cpu

NOT_A_SAMPLE = ".", ""  # CPU itself refuses it
DRAWS = 8
WIDER = {
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def said(error):
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"[:160]


def widened(tree):
    def one(x):
        if isinstance(x, torch.Tensor):
            return x.detach().to(WIDER.get(x.dtype, x.dtype)).requires_grad_(x.requires_grad)
        return WIDER.get(x, x) if isinstance(x, torch.dtype) else x

    return pytree.tree_map(one, tree)


def wrote_through_overlaps(before, after):
    """Whether a call wrote to elements that share memory (running statistics that were expanded): what stays there is
    undefined, and where CPU looks at all it refuses."""
    return any(
        isinstance(x, torch.Tensor)
        and x.layout == torch.strided
        and any(n > 1 and s == 0 for n, s in zip(x.shape, x.stride(), strict=True))
        and not torch.equal(x.detach().nan_to_num(), y.detach().nan_to_num())
        for x, y in zip(pytree.tree_leaves(before), pytree.tree_leaves(after), strict=True)
    )


class Runner:
    """`repeats`: how often the device runs a call, the last one counting: what recurs is compiled in the background."""

    def __init__(self, device="neuron"):
        self.device = device
        self.compiled = os.environ.get("DENDRITE_TIER") == "compiled"
        self.seeded_state = torch.default_generator.manual_seed(1).get_state()
        self.repeats = 3 if os.environ.get("DENDRITE_MODE") == "adaptive" else 1

    def synchronize(self):
        if self.device != "cpu":
            torch.neuron.synchronize()

    def place(self):
        """The letter for where the calls since the last reset ran: n compiled, k PyTorch's CPU kernels on the device's
        memory (tier 0, or by name from compiled code), h the host, as `fallback_ops` counts it."""
        if self.device == "cpu":
            return "k"
        stats = torch.neuron.stats()
        if stats["fallback_ops"]:
            return "h"
        return "k" if stats["kernels_by_name"] or not self.compiled else "n"

    def call(self, function, arguments, seed):
        torch.default_generator.manual_seed(seed)
        if self.device != "cpu":
            torch.neuron.manual_seed(seed)
        return function(arguments)

    def on_device(self, function, arguments, seed=1):
        """Results on the CPU, and their layouts. Raises what the user would see."""
        for _ in range(self.repeats):
            moved = move(arguments, self.device)
            self.synchronize()
            if self.device != "cpu":
                torch.neuron.reset_stats()
            results = self.call(function, moved, seed)
            self.synchronize()
        return results, to_cpu(results)

    def drop_errors(self):
        """What a failed call left behind is none of the next one's business."""
        with contextlib.suppress(Exception):
            self.synchronize()

    def values(self, op, function, arguments, *, layout=True, meaningless=False, composed=False):
        """`function(arguments)` gives leaves; `composed`: it calls many operators. The verdict's letter and message."""
        try:
            moved = move(arguments, "cpu")
            expected = self.call(function, moved, 1)
            if wrote_through_overlaps(arguments, moved):
                return NOT_A_SAMPLE
            drew = not torch.equal(torch.default_generator.get_state(), self.seeded_state)
            seeds = range(2, 2 + DRAWS) if drew else ()
            others = [self.call(function, move(arguments, "cpu"), seed) for seed in seeds]
        except Exception:
            return NOT_A_SAMPLE
        try:
            raw, actual = self.on_device(function, arguments)
        except Exception as error:
            self.drop_errors()
            return "R", said(error)
        place = self.place()
        varies = any(judge.same_values(op, expected, other) for other in others)
        problem = judge.same_form(actual, expected) or (layout and judge.same_layout(raw, expected)) or None
        if not problem and varies and not meaningless:
            draws = [self.on_device(function, arguments, seed)[1] for seed in seeds]
            problem = judge.same_distribution(draws, [to_cpu(other) for other in others])
        elif not problem and not meaningless:
            problem = judge.same_values(
                op,
                actual,
                to_cpu(expected),
                lambda: self.precise(function, arguments),
                pytree.tree_leaves(arguments),
                composed,
            )
        return problem or (place, "")

    def precise(self, function, arguments):
        try:
            return to_cpu(self.call(function, widened(move(arguments, "cpu")), 1))
        except Exception:
            return None

    def error(self, function, arguments):
        """Whether the device refuses what CPU refuses, with an error of the same class."""
        try:
            self.call(function, move(arguments, "cpu"), 1)
        except Exception as found:
            expected = found
        else:
            return NOT_A_SAMPLE
        try:
            self.on_device(function, arguments)
        except Exception as found:
            self.drop_errors()
            if isinstance(found, type(expected)):
                return "n", ""
            return "X", f"{said(found)} instead of {said(expected)}"[:200]
        return "A", f"accepted; CPU says {said(expected)}"
