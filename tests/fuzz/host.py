"""Producers of what is not arithmetic: new tensors, reads, streams, storages, autograd, random numbers."""

from __future__ import annotations

import torch

from tests.fuzz.generate import Gen
from tests.fuzz.program import DEVICE, Each, Instr


def a_new_tensor(g: Gen) -> Instr | None:
    kind = g.rng.randrange(10)
    dtype, shape = g.dtype(), g.shape()
    if kind == 9:
        return g.new("helpers.upload_then_spoil", DEVICE, shape, dtype, g.each(g.seed))
    if kind <= 2:
        return g.make()
    if kind == 3:
        return Instr(
            g.pick(["torch.zeros", "torch.ones"]), (shape,), {"dtype": dtype, "device": DEVICE}, (g.name(),)
        )
    if kind == 4:
        value = g.number(None) if dtype.is_floating_point else g.each(lambda: g.pick([0, 1, 2]))
        return Instr("torch.full", (shape, value), {"dtype": dtype, "device": DEVICE}, (g.name(),))
    if kind == 5:
        return g.new("helpers.filled", DEVICE, shape, dtype, g.each(lambda: g.pick([0, 1, 3])))
    if kind == 6:
        return Instr(
            "torch.arange", (g.pick([0, 1, 4, 7]),), {"dtype": torch.int64, "device": DEVICE}, (g.name(),)
        )
    found = g.var()
    if found is None:
        return None
    if kind == 7:
        return g.new(g.pick(["torch.zeros_like", "torch.ones_like", "torch.clone"]), found[0])
    return g.new(g.pick([".new_zeros", ".new_ones"]), found[0], shape)


def a_read(g: Gen) -> Instr | None:
    found = g.var()
    if found is None:
        return None
    v, x = found
    kind = g.rng.randrange(12)
    if kind == 11 and x.dim() and x.dtype != torch.bool:
        kinds = ["index", "index_select", "gather", "embedding"]
        return Instr("helpers.late_error", (g.pick(kinds), v, g.each(lambda: g.pick([100, -100]))))
    if kind == 10:
        return Instr("helpers.download_then_write", (v, g.number(x)))
    if kind == 0:
        return Instr("helpers.item", (v,))
    if kind == 1:
        return Instr("helpers.tolist", (v,))
    if kind == 2:
        return Instr("helpers.truth", (v,))
    if kind == 3:
        return Instr("helpers.printed", (v,)) if x.numel() < 50 and not x.requires_grad else None
    if kind == 4:
        return g.new("helpers.from_host", v, DEVICE)
    if kind == 5:
        return Instr("torch.equal", (v, g.like(x, same_dtype=True, exact=True) or v))
    if kind == 6:
        return Instr("torch.allclose", (v, v)) if x.dtype != torch.bool else None
    return Instr("helpers.check")


def a_device_call(g: Gen) -> Instr | None:
    kind = g.rng.randrange(9)
    if kind == 8:
        return Instr("helpers.use_mode", (DEVICE, g.pick(["eager", "adaptive"])))
    if kind <= 1:
        return Instr("helpers.synchronize", (DEVICE,))
    if kind == 2:
        return Instr("helpers.pause", (g.pick([0.0005, 0.0015, 0.003]),))
    if kind <= 4:
        return Instr("helpers.use_stream", (DEVICE, g.each(lambda: g.pick([0, 1, 2]))))
    if kind == 5:
        return Instr("helpers.event", (DEVICE, g.pick(["wait", "synchronize", "query"])))
    found = g.var()
    return Instr("helpers.record_stream", (found[0], DEVICE)) if found else None


def a_deletion(g: Gen) -> Instr | None:
    names = [n for n in g.side.env if n not in g.persistent]
    return Instr("helpers.delete", (g.pick(names),)) if names else None


def a_storage_change(g: Gen) -> Instr | None:
    found = g.var(lambda x: not x.requires_grad)
    if found is None:
        return None
    v, x = found
    kind = g.rng.randrange(6)
    if kind <= 1:
        shape = g.each(g.shape, 0.3)
        if isinstance(shape, Each):
            shape = Each(tuple(shape.values))
        return Instr("helpers.resize", (v, shape, 1))
    other = g.var(lambda y: y.dtype == x.dtype and not y.requires_grad)
    if other is None:
        return None
    if kind == 2:
        return Instr(".set_", (v, other[0]))
    if kind == 3:
        return Instr("helpers.set_data", (v, other[0]))
    if kind == 4:
        return g.new("helpers.get_data", v)
    return Instr(".resize_as_", (v, other[0])) if other[1].numel() <= x.numel() else None


def autograd(g: Gen) -> Instr | None:
    if not g.grads:
        return None
    tracked = g.var(lambda x: x.requires_grad)
    if tracked is None or g.chance(0.15):
        found = g.var(lambda x: x.is_floating_point() or x.is_complex())
        return g.new("helpers.leaf", found[0]) if found else None
    v, x = tracked
    kind = g.rng.randrange(8)
    if kind <= 2:
        return Instr("helpers.backward", (v, g.chance(0.5)))
    if kind == 3:
        leaves = g.var(lambda y: y.requires_grad and y.is_leaf)
        return Instr("helpers.grad", (v, leaves[0]), {}, (g.name(),)) if leaves else None
    if kind == 4:
        return Instr("helpers.hook", (v, g.pick([2.0, 0.5])))
    if kind == 5:
        return g.new("helpers.take_grad", v) if x.is_leaf else None
    if kind == 6:
        return (
            Instr("helpers.step_without_grad", (v, g.each(lambda: g.pick([0.5, 0.25]))))
            if x.is_leaf
            else None
        )
    return Instr(g.pick([".add_", ".mul_"]), (v, 2.0))


def random_numbers(g: Gen) -> Instr | None:
    shape = g.pick([(4,), (2, 3), (3, 5, 2)])
    if g.chance(0.7):
        kinds = ["bernoulli", "dropout0", "dropout1", "uniform", "randint", "normal", "randperm"]
        return g.new(
            "helpers.known_random", g.pick(kinds), DEVICE, shape, g.each(lambda: g.pick([1.0, 2.0, -3.0]))
        )
    kind = g.pick(
        "rand randn randint randperm bernoulli dropout multinomial uniform_ normal_ exponential_ geometric_ "
        "cauchy_ log_normal_".split()
    )
    return Instr("helpers.same_for_seed", (kind, DEVICE, shape, torch.float32, g.each(g.seed)))
