"""Producers of views, and of writes through them."""

from __future__ import annotations

import torch

from tests.fuzz.generate import Gen
from tests.fuzz.program import DEVICE, Instr, Var


def a_slice(g: Gen, n: int):
    """A slice of a dimension of n; its start may move from iteration to iteration, its length does not."""
    if n <= 1 or g.chance(0.25):
        return slice(None)
    length = g.rng.randint(1, n)
    step = g.pick([1, 1, 1, 2])
    start = g.each(lambda: g.rng.randint(0, n - length), 0.5)
    if isinstance(start, int):
        return slice(start, start + length, step) if g.chance(0.8) else slice(start - n, None, step)
    stop = type(start)(tuple(s + length for s in start.values))
    return slice(start, stop, step)


def key(g: Gen, x: torch.Tensor):
    """A basic index."""
    parts: list = []
    for n in x.shape[: g.rng.randint(0, x.dim())]:
        if n and g.chance(0.3):
            parts.append(g.each(lambda n=n: g.rng.randrange(-n, n), 0.5))
        else:
            parts.append(a_slice(g, n))
    if g.chance(0.1):
        parts.insert(g.rng.randint(0, len(parts)), None)
    if g.chance(0.1):
        parts.append(...)
    return tuple(parts)


def factor(g: Gen, n: int) -> tuple[int, ...]:
    """A shape of n elements."""
    shape = []
    rest = n
    for p in (2, 3, 5, 2, 4):
        if rest and rest % p == 0 and g.chance(0.5):
            shape.append(p)
            rest //= p
    shape.append(rest)
    g.rng.shuffle(shape)
    if g.chance(0.15):
        shape.insert(g.rng.randint(0, len(shape)), 1)
    if g.chance(0.2) and n:
        shape[g.rng.randrange(len(shape))] = -1
    return tuple(shape)


def as_strided(g: Gen, v: Var, x: torch.Tensor) -> Instr | None:
    size = x.untyped_storage().nbytes() // x.element_size()
    if not size:
        return None
    shape, stride, span = [], [], 1
    for _ in range(g.rng.randint(0, 3)):
        n, s = g.pick([1, 2, 3]), g.pick([0, 1, 1, 2, 3, 4])
        if span + (n - 1) * s <= size:
            shape.append(n)
            stride.append(s)
            span += (n - 1) * s
    offset = g.each(lambda: g.rng.randint(0, size - span), 0.5)
    return g.new(".as_strided", v, tuple(shape), tuple(stride), offset)


def view_dtype(g: Gen, v: Var, x: torch.Tensor) -> Instr | None:
    names = {
        2: (torch.float16, torch.bfloat16, torch.int16),
        4: (torch.int32, torch.float32),
        8: (torch.int64, torch.float64, torch.complex64),
    }
    size = x.element_size() if g.chance(0.7) else g.pick([1, 2, 4, 8])
    if x.dtype == torch.bool or x.requires_grad:
        return None
    return g.new(".view", v, g.pick(names.get(size, (torch.uint8, torch.int8))))


def a_view(g: Gen) -> Instr | None:
    found = g.var(lambda x: x.dim() > 0 or g.chance(0.2))
    if found is None:
        return None
    v, x = found
    d = g.dim(x)
    n = x.shape[d] if x.dim() else 1
    kind = g.rng.randrange(25)
    if kind <= 4:
        return g.new("helpers.getitem", v, key(g, x))
    if kind == 5:
        return g.new(".transpose", v, d, g.dim(x))
    if kind == 6:
        order = list(range(x.dim()))
        g.rng.shuffle(order)
        return g.new(".permute", v, tuple(order))
    if kind == 7:
        shape = [g.pick(g.dims) if m == 1 else m for m in x.shape]
        if g.chance(0.5):
            shape.insert(0, g.pick([1, 2, 3]))
        return g.new(".expand", v, tuple(shape))
    if kind == 8:
        return g.new(".unsqueeze", v, g.rng.randint(-x.dim() - 1, x.dim()))
    if kind == 9:
        return g.new(".squeeze", v, *((d,) if g.chance(0.6) else ()))
    if kind in (10, 11):
        return g.new(g.pick([".view", ".reshape", ".reshape"]), v, factor(g, x.numel()))
    if kind in (12, 13):
        return as_strided(g, v, x)
    if kind == 14:
        return view_dtype(g, v, x)
    if kind == 15:
        if not x.is_complex():
            return g.new("torch.view_as_complex", v) if x.dim() and x.shape[-1] == 2 else None
        return g.pick(
            [
                g.new("helpers.real_imag", v, g.pick(["real", "imag"])),
                g.new("torch.view_as_real", v),
                g.new(".conj", v),
            ]
        )
    if kind == 16:
        return g.new(".diagonal", v, g.pick([-1, 0, 1]), g.dim(x), g.dim(x))
    if kind == 17 and n:
        length = g.rng.randint(1, n)
        return g.new(".narrow", v, d, g.each(lambda: g.rng.randint(0, n - length), 0.5), length)
    if kind == 18 and n:
        return g.new(".unfold", v, d, g.rng.randint(1, n), g.pick([1, 2]))
    if kind in (19, 20):
        names = (g.name(), g.name())
        call = g.pick([".chunk", ".split", ".tensor_split", ".unbind", ".hsplit"])
        if call == ".unbind":
            return Instr(call, (v, d), {}, names)
        if call == ".hsplit":
            return Instr(call, (v, 2), {}, names)
        return Instr(call, (v, g.pick([1, 2, 3]), d), {}, names)
    if kind == 21:
        return g.new(g.pick([".detach", ".detach", "torch.ops.aten.alias.default"]), v)
    if kind == 22:
        return g.new("helpers.transposed", v, g.pick(["mT", "t"]))
    if kind == 23 and n:
        return g.new(".select", v, d, g.each(lambda: g.rng.randrange(-n, n), 0.5))
    return g.new(g.pick([".movedim", ".swapaxes"]), v, d, g.dim(x))


def index_for(g: Gen, n: int, shape: tuple[int, ...]) -> Var:
    call = g.new("helpers.index", DEVICE, max(n, 1), shape, g.each(g.seed, 0.5))
    g.indices.add(call.out[0])
    return g.before(call)


def value_for(g: Gen, x: torch.Tensor, shape=None):
    """What can be written into x: a number or a tensor that broadcasts to `shape`."""
    if g.chance(0.4):
        return g.number(x)
    ranks = {torch.bool: 0, torch.uint8: 1, torch.int8: 1, torch.int16: 1, torch.int32: 1, torch.int64: 1}

    def accept(y):
        wide = len(x.shape if shape is None else shape)
        return (
            ranks.get(y.dtype, 3 if y.is_complex() else 2) <= ranks.get(x.dtype, 3 if x.is_complex() else 2)
            and y.dim() <= wide
            and all(
                a in (1, b) for a, b in zip(reversed(y.shape), reversed(x.shape if shape is None else shape))
            )
        )

    found = g.var(accept)
    return found[0] if found else g.number(x)


def a_write(g: Gen) -> Instr | None:
    """An in-place write through some alias."""
    found = g.var()
    if found is None:
        return None
    v, x = found
    kind = g.rng.randrange(22)
    if kind <= 4:
        k = key(g, x)
        try:
            target = x.detach()[resolve_first(k)]
        except (IndexError, TypeError, RuntimeError):
            return None
        return Instr("helpers.setitem", (v, k, value_for(g, x, target.shape)))
    if kind == 5:
        return Instr(".fill_", (v, g.number(x)))
    if kind == 6:
        return Instr(".zero_", (v,))
    if kind in (7, 8, 9):
        call = g.pick([".add_", ".mul_", ".sub_", ".copy_", ".add_"])
        value = value_for(g, x)
        if call == ".copy_" and not isinstance(value, Var):
            return None
        kwargs = {"alpha": g.number(x)} if call in (".add_", ".sub_") and g.chance(0.4) else {}
        return Instr(call, (v, value), kwargs)
    if kind == 10:
        return Instr(
            "helpers.iop",
            (g.pick(["+", "-", "*", "^", "&"]), v, value_for(g, x)),
        )
    if kind in (11, 12):
        mask = g.var(lambda y: y.dtype == torch.bool and y.dim() <= x.dim())
        if mask is None:
            return None
        if g.chance(0.5):
            return Instr("helpers.setitem", (v, mask[0], g.number(x)))
        return Instr(".masked_fill_", (v, mask[0], g.number(x)))
    d = g.dim(x)
    n = x.shape[d] if x.dim() else 1
    if kind in (13, 14):
        if not x.dim():
            return None
        shape = (g.pick([1, 2, 3]),)
        i = index_for(g, x.shape[0], shape)
        if g.chance(0.5):
            return Instr("helpers.setitem", (v, i, g.number(x)))
        source = g.before(g.make(x.dtype, (*shape, *x.shape[1:])))
        accumulate = g.chance(0.5)
        if not accumulate:  # which of two equal indices wins is open
            g.pending[0] = g.new("helpers.permutation", DEVICE, x.shape[0], g.seed())
            i = Var(g.pending[0].out[0])
            g.indices.add(i.name)
            g.pending[1] = g.make(x.dtype, tuple(x.shape))
            source = Var(g.pending[1].out[0])
        return Instr(".index_put_", (v, (i,), source), {"accumulate": accumulate})
    if kind in (15, 16):
        if not x.numel() or not x.dim():
            return None
        i = index_for(g, n, tuple(x.shape))
        if g.chance(0.5):
            return Instr(".scatter_", (v, d, i, g.number(x)))
        return Instr(".scatter_add_", (v, d, i, g.before(g.make(x.dtype, tuple(x.shape)))))
    if kind == 17:
        return Instr(".clamp_", (v, g.number(x)), {"max": g.number(x)} if g.chance(0.5) else {})
    if kind == 18 and x.dim() and n:
        shape = (g.pick([1, 2]),)
        i = index_for(g, n, shape)
        if g.chance(0.5):
            return Instr(".index_fill_", (v, d, i, g.number(x)))
        full = list(x.shape)
        full[d] = shape[0]
        return Instr(".index_add_", (v, d, i, g.before(g.make(x.dtype, tuple(full)))), {"alpha": g.number(x)})
    if kind == 19:
        return Instr(
            g.pick([".relu_", ".neg_", ".abs_", ".logical_not_", ".square_", ".sign_", ".t_", ".tril_"]), (v,)
        )
    if kind == 20:
        other = g.like(x, same_dtype=True)
        third = g.like(x, same_dtype=True)
        if other is None or third is None:
            return None
        return Instr(g.pick([".addcmul_", ".lerp_"]), (v, other, third))
    return g.pick(
        [Instr(".unsqueeze_", (v, 0)), Instr(".squeeze_", (v,)), Instr(".transpose_", (v, d, g.dim(x)))]
    )


def resolve_first(k):
    from tests.fuzz.program import resolve

    return resolve(k, {}, None, 0)
