"""Helpers of the Python tests: run the same function on CPU and on the device, compare all that it touched."""

import contextlib
import os
import time

import torch
from torch.utils import _pytree as pytree


class Mode:
    """One of the three ways to run. `wrap` is torch.compile in compiled mode and nothing otherwise."""

    def __init__(self, name, device):
        self.name, self.device = name, device
        self.compiled = name == "compiled"

    def active(self):
        if self.device != "neuron":
            return contextlib.nullcontext()
        return torch.neuron.execution_mode("adaptive" if self.name == "adaptive" else "eager")

    def wrap(self, function):
        if not self.compiled:
            return function
        backend = "neuron" if self.device == "neuron" else "aot_eager"
        return torch.compile(function, backend=backend, dynamic=False)

    def same(self, function, *args, rtol=1e-5, atol=1e-6, repeats=3):
        """Runs `function(*args)` on CPU and on the device, on equal arguments, `repeats` times (a recurring tape
        is what compiles), and compares results and arguments after each."""
        on_device = self.wrap(function)
        for _ in range(repeats):
            cpu_args = move(args, "cpu")
            device_args = move(args, self.device)
            expected = function(*cpu_args)
            actual = on_device(*device_args)
            assert_same((actual, device_args), (expected, cpu_args), rtol=rtol, atol=atol)
        return actual


def move(tree, device):
    """Copies every tensor to `device`, keeping strides and offset: views stay views, of their own storage."""

    def one(x):
        if not isinstance(x, torch.Tensor):
            return x
        detached = x.detach()
        flat = torch.empty(0, dtype=x.dtype).set_(detached.untyped_storage()).clone()
        y = torch.as_strided(flat.to(device), x.size(), x.stride(), x.storage_offset())
        return y.detach().requires_grad_(x.requires_grad)

    return pytree.tree_map(one, tree)


def assert_same(actual, expected, rtol=1e-5, atol=1e-6):
    actual_leaves, actual_spec = pytree.tree_flatten(actual)
    expected_leaves, expected_spec = pytree.tree_flatten(expected)
    assert actual_spec == expected_spec
    for a, e in zip(actual_leaves, expected_leaves, strict=True):
        if isinstance(e, torch.Tensor):
            assert a.shape == e.shape
            assert a.dtype == e.dtype
            torch.testing.assert_close(a.detach().cpu(), e.detach(), rtol=rtol, atol=atol, equal_nan=True)
        else:
            assert a == e


def outcome(function, *args):
    """What a user sees: ("ok", result) or ("error", exception type)."""
    try:
        return "ok", function(*args)
    except (RuntimeError, ValueError, TypeError, IndexError) as error:
        return "error", type(error).__name__


def target():
    explicit = os.environ.get("DENDRITE_TARGET")
    return explicit or ("opaque" if os.environ.get("DENDRITE_OPAQUE") == "1" else "embedded")


def tier():
    return os.environ.get("DENDRITE_TIER", "auto")


def stat(name):
    return torch.neuron.stats()[name] if hasattr(torch, "neuron") else 0


def synchronize(device):
    if device == "neuron":
        torch.neuron.synchronize()


def compiling():
    """Whether a compile is queued or running now."""
    return stat("compiles_pending") > 0


def new_compiles(step, mode, calls=30, quiet_seconds=0.5, limit_seconds=120.0):
    """Calls `step(i)` until nothing has been compiled or queued for `quiet_seconds`, then `calls` times more, and
    returns how many compiles those brought. Fails if compiling never settles."""
    start = last_change = time.monotonic()
    seen, i = -1, 0
    while time.monotonic() - last_change < quiet_seconds or i < 8:
        step(i)
        synchronize(mode.device)
        i += 1
        now = time.monotonic()
        if stat("compiles") != seen or compiling():
            seen, last_change = stat("compiles"), now
        assert now - start < limit_seconds, f"still compiling after {i} calls: {seen} compiles"
    # Synchronised like the calls before: without that the tape is cut elsewhere, which is another program.
    for _ in range(calls):
        step(i)
        synchronize(mode.device)
        i += 1
    # What those calls queued for background compiling counts as well.
    while compiling():
        time.sleep(0.01)
        assert time.monotonic() - start < limit_seconds, "a compile does not end"
    return stat("compiles") - seen


def resident_bytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
