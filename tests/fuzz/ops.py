"""Producers of calls that make new tensors, or write into `out=`."""

from __future__ import annotations

import torch

from tests.fuzz.generate import FLOATS, INTS, Gen
from tests.fuzz.program import DEVICE, Instr
from tests.fuzz.views import index_for

UNARY = (
    "abs neg exp log sqrt rsqrt sin cos tan tanh sigmoid relu floor ceil round trunc sign reciprocal square erf erfc "
    "log1p expm1 log2 log10 exp2 isnan isinf isfinite logical_not bitwise_not positive frac sgn asin acos atan sinh "
    "cosh asinh atanh nan_to_num conj_physical clone signbit isposinf deg2rad erfinv lgamma digamma"
).split()
IN_PLACE_UNARY = (
    "abs neg exp sqrt sin tanh sigmoid relu floor round sign square logical_not reciprocal trunc".split()
)
ACTIVATIONS = (
    "gelu silu softplus leaky_relu hardtanh elu relu6 hardswish mish logsigmoid hardsigmoid softsign selu celu "
    "tanhshrink softshrink hardshrink threshold"
).split()
BINARY = (
    "add sub mul div true_divide maximum minimum fmod remainder atan2 eq ne lt le gt ge logical_and logical_or "
    "logical_xor bitwise_and bitwise_or bitwise_xor hypot fmax fmin heaviside xlogy logaddexp copysign add mul sub "
    "add mul floor_divide rsub float_power nextafter gcd lcm isclose"
).split()
OPERATORS = ["+", "-", "*", "/", "<", "==", "&", "|", "^", "+", "*", "-"]
REDUCE_DIM = (
    "sum mean prod amax amin argmax argmin any all var std logsumexp nansum count_nonzero sum mean amax norm"
).split()
REDUCE_ALL = "sum mean prod max min argmax argmin any all var std norm nansum count_nonzero sum".split()


def with_out(g: Gen, name: str, args: tuple, kwargs: dict | None = None) -> Instr:
    """The call, sometimes into an out= tensor: one that lives, one that must grow, one of another dtype."""
    kwargs = dict(kwargs or {})
    if g.chance(0.15):
        if g.chance(0.5):
            dtype = g.pick([torch.float32, *g.dtypes])
            kwargs["out"] = g.before(g.new("helpers.filled", DEVICE, g.pick([(0,), g.shape()]), dtype, 1))
        else:
            found = g.var()
            if found is None:
                return Instr(name, args, kwargs, (g.name(),))
            kwargs["out"] = found[0]
    return Instr(name, args, kwargs, (g.name(),))


def unary(g: Gen) -> Instr | None:
    found = g.var()
    if found is None:
        return None
    v, _ = found
    if g.chance(0.15):
        return Instr("." + g.pick(IN_PLACE_UNARY) + "_", (v,))
    if g.chance(0.2):
        name = "torch.nn.functional." + g.pick(ACTIVATIONS)
        return g.new(name, v, *((0.5, -1.0) if name.endswith(".threshold") else ()))
    return with_out(g, "torch." + g.pick(UNARY), (v,))


def binary(g: Gen) -> Instr | None:
    found = g.var()
    if found is None:
        return None
    v, x = found
    other = g.like(x)
    if other is None or g.chance(0.35 if x.is_floating_point() else 0.6):
        other = g.number(x, nonzero=True)
    order = (v, other)
    if g.chance(0.45):
        kind = g.pick(OPERATORS)
        return g.new("helpers.op", kind, *(order if g.chance(0.8) else order[::-1]))
    name = g.pick(BINARY)
    if name in ("fmod", "remainder", "floor_divide", "gcd", "lcm"):
        order = (v, g.number(x, nonzero=True))
        if name in ("gcd", "lcm"):
            order = (v, v)
    if name == "nextafter":
        order = (v, v)
    kwargs = {}
    if name in ("add", "sub", "rsub") and g.chance(0.4):
        kwargs["alpha"] = g.number(x)
    if name == "div" and g.chance(0.3):
        kwargs["rounding_mode"] = g.pick(["floor", "trunc"])
        order = (v, g.number(x, nonzero=True))
    if name == "rsub":
        return Instr("torch.rsub", order, kwargs, (g.name(),))
    return with_out(g, "torch." + name, order, kwargs)


def ternary(g: Gen) -> Instr | None:
    found = g.var(lambda x: x.dtype != torch.bool)
    if found is None:
        return None
    v, x = found
    a, b = g.like(x, same_dtype=True), g.like(x, same_dtype=True)
    if a is None or b is None:
        return None
    kind = g.rng.randrange(6)
    if kind == 0:
        condition = g.var(lambda y: y.dtype == torch.bool and y.dim() <= x.dim())
        return g.new("torch.where", condition[0], v, a) if condition else None
    if kind == 1:
        return with_out(g, "torch.addcmul", (v, a, b), {"value": g.number(x)})
    if kind == 2:
        return with_out(g, "torch.lerp", (v, a, g.number(x) if g.chance(0.7) else b))
    if kind == 3:
        return with_out(g, "torch.clamp", (v,), {"min": g.number(x), "max": g.number(x)})
    if kind == 4:
        return with_out(g, "torch.addcdiv", (v, a, b), {"value": g.number(x)})
    return g.new("torch.clamp", v, a, b)


def power(g: Gen) -> Instr | None:
    found = g.var(lambda x: x.dtype != torch.bool)
    if found is None:
        return None
    exponent = g.pick([0, 1, 2, 3, 0.5, -1.0, 2.0, 1.5])
    return g.new("helpers.op", "**", found[0], exponent)


def cast(g: Gen) -> Instr | None:
    found = g.var()
    if found is None:
        return None
    v, x = found
    dtype = g.dtype()
    if x.is_floating_point() and dtype in INTS:
        return g.new("helpers.to_int", v, dtype)
    if x.is_complex() and not dtype.is_complex:
        return g.new(".abs", v)
    kind = g.rng.randrange(5)
    if kind == 0:
        return g.new(".type", v, dtype)
    if kind == 1:
        return g.new(g.pick([".contiguous", ".clone", ".float"]), v) if not x.is_complex() else None
    if kind == 2:
        return g.new(".type_as", v, g.like(x) or v) if not x.is_floating_point() else None
    return Instr(".to", (v, dtype), {"copy": True} if g.chance(0.2) else {}, (g.name(),))


def reduction(g: Gen) -> Instr | None:
    found = g.var()
    if found is None:
        return None
    v, x = found
    if g.chance(0.3) or not x.dim():
        name = g.pick(REDUCE_ALL)
        kwargs = {"dtype": g.pick([torch.float32, torch.float64])} if name == "sum" and g.chance(0.2) else {}
        return g.new("torch." + name, v, **kwargs)
    name = g.pick(REDUCE_DIM)
    d = g.dim(x)
    dims = d
    if x.dim() >= 2 and name in (
        "sum",
        "mean",
        "amax",
        "amin",
        "var",
        "std",
        "logsumexp",
        "nansum",
        "any",
        "all",
    ):
        dims = g.pick([d, d, (0, -1)])
    kwargs = {"dim": dims, "keepdim": g.chance(0.3)}
    if name == "count_nonzero":
        del kwargs["keepdim"]
    if name in ("var", "std"):
        kwargs["correction"] = g.pick([0, 1])
    if name == "norm":
        return g.new("torch.norm", v, g.pick([1, 2, float("inf")]), d)
    return with_out(g, "torch." + name, (v,), kwargs)


def scan_or_sort(g: Gen) -> Instr | None:
    found = g.var(lambda x: not x.is_complex())
    if found is None:
        return None
    v, x = found
    d = g.dim(x)
    kind = g.rng.randrange(9)
    if kind <= 1:
        name = g.pick(["torch.cumsum", "torch.cumsum", "torch.cumprod", "torch.logcumsumexp"])
        return with_out(g, name, (v, d))
    if kind == 2:
        return Instr("helpers.named", (v, g.pick(["cummax", "cummin"]), d), {}, (g.name(), g.name()))
    if kind == 3:
        return Instr("helpers.sort_stable", (v, d, g.chance(0.5)), {}, (g.name(), g.name()))
    if kind == 4:
        return g.new("helpers.values_only", v, g.pick([1, 2]), d, g.chance(0.5))
    if kind == 5:
        return Instr("helpers.named", (v, g.pick(["max", "min"]), d), {}, (g.name(), g.name()))
    if kind == 6:
        return g.new("torch.argsort", v, dim=d, stable=True)
    if kind == 7:
        return Instr("helpers.named", (v, g.pick(["aminmax"])), {"dim": d}, (g.name(), g.name()))
    return g.new(g.pick(["torch.nn.functional.softmax", "torch.nn.functional.log_softmax"]), v, d)


def matmul(g: Gen) -> Instr | None:
    found = g.var(lambda x: 1 <= x.dim() <= 3 and x.dtype != torch.bool)
    if found is None:
        return None
    v, x = found
    inner = x.shape[-1]
    other = g.var(
        lambda y: y.dtype == x.dtype and y.dim() >= 1 and y.shape[-2 if y.dim() > 1 else -1] == inner
    )
    if other is None or g.chance(0.4):
        shape = g.pick([(inner,), (inner, g.pick(g.dims)), (inner, g.pick(g.dims))])
        w = g.before(g.make(x.dtype, shape))
        dims = len(shape)
    else:
        w, dims = other[0], other[1].dim()
    if x.dim() == 2 and dims == 2 and g.chance(0.4):
        columns = shape[1] if len(g.pending) else other[1].shape[1]
        c = g.before(g.make(x.dtype, g.pick([(columns,), (x.shape[0], columns), (1, 1)])))
        kwargs = {"beta": g.pick([0, 1, 0.5, 2])} if g.chance(0.5) else {}
        if g.chance(0.3):
            kwargs["alpha"] = g.pick([1, 0.5, 2])
        return with_out(g, "torch.addmm", (c, v, w), kwargs)
    if x.dim() == 2 and dims == 2 and g.chance(0.3):
        return with_out(g, "torch.mm", (v, w))
    if g.chance(0.2):
        return g.new("helpers.op", "@", v, w)
    return with_out(g, "torch.matmul", (v, w))


def joining(g: Gen) -> Instr | None:
    found = g.var()
    if found is None:
        return None
    v, x = found
    others = [g.like(x, exact=True) or v for _ in range(g.pick([1, 2]))]
    d = g.dim(x)
    kind = g.rng.randrange(12)
    if kind <= 3:
        return with_out(g, g.pick(["torch.cat", "torch.stack", "torch.cat"]), ((v, *others), d))
    if kind == 4:
        return g.new("torch.flip", v, (d,))
    if kind == 5:
        return g.new("torch.roll", v, g.pick([-1, 1, 2]), d)
    if kind == 6:
        return g.new(".repeat", v, tuple(g.pick([1, 2]) for _ in range(x.dim())))
    if kind == 7:
        return g.new(g.pick(["torch.tril", "torch.triu"]), v, g.pick([-1, 0, 1]))
    if kind == 8:
        return g.new(
            "torch.nn.functional.pad", v, (g.pick([0, 1]), g.pick([0, 1, -1, 2])), "constant", g.number(x)
        )
    if kind == 9:
        return g.new("torch.repeat_interleave", v, g.pick([1, 2]), d)
    if kind == 10:
        return g.new(g.pick(["torch.diag", "torch.diag_embed", "torch.diff", "torch.atleast_2d"]), v)
    return g.new("torch.broadcast_to", v, (g.pick([1, 2]), *x.shape))


def indexing(g: Gen) -> Instr | None:
    found = g.var(lambda x: x.dim() >= 1)
    if found is None:
        return None
    v, x = found
    d = g.dim(x)
    n = x.shape[d]
    kind = g.rng.randrange(11)
    if kind <= 2:
        return with_out(g, "torch.index_select", (v, d, index_for(g, n, (g.pick([1, 2, 4]),))))
    if kind == 3:
        return g.new("torch.gather", v, d, index_for(g, n, tuple(x.shape)))
    if kind in (4, 5):
        i = index_for(g, x.shape[0], g.pick([(2,), (1, 2), ()]))
        rest = x.dim() - 1
        if rest and g.chance(0.3):
            return g.new("helpers.getitem", v, (slice(None), index_for(g, x.shape[1], (2,))))
        if rest and g.chance(0.3):
            return g.new("helpers.getitem", v, (i, index_for(g, x.shape[1], (2,))))
        return g.new("helpers.getitem", v, i)
    if kind == 6:
        return g.new("torch.take", v, index_for(g, x.numel(), g.shape(2)))
    if kind == 7:
        mask = g.var(lambda y: y.dtype == torch.bool and y.dim() <= x.dim())
        return g.new("helpers.getitem", v, mask[0]) if mask else None
    if kind == 8:
        return g.new("torch.nonzero", v)
    if kind == 9 and x.dim() == 2 and x.is_floating_point():
        return g.new("torch.nn.functional.embedding", index_for(g, x.shape[0], g.shape(2)), v)
    full = list(x.shape)
    full[d] = 2
    i = index_for(g, n, (2,))
    source = g.before(g.make(x.dtype, tuple(full)))
    return g.new("torch.index_add", v, d, i, source)


def network(g: Gen) -> Instr | None:
    """Layers."""
    found = g.var(lambda x: x.dtype in FLOATS and 2 <= x.dim() <= 3 and 0 not in x.shape)
    if found is None:
        return None
    v, x = found
    last, F = x.shape[-1], "torch.nn.functional."  # noqa: N806
    kind = g.rng.randrange(10)

    def weight(*shape):
        return g.before(g.make(x.dtype, shape))

    if kind == 0:
        return g.new(F + "linear", v, weight(3, last), *((weight(3),) if g.chance(0.6) else ()))
    if kind == 1:
        return g.new(F + "layer_norm", v, (last,), weight(last), weight(last))
    if kind == 2 and x.dim() == 3:
        return g.new(
            F + "conv1d", v, weight(2, x.shape[1], 1 if last < 2 else 2), None, g.pick([1, 2]), g.pick([0, 1])
        )
    if kind == 3:
        y = g.before(g.new(".reshape", v, (1, 1, *(x.shape if x.dim() == 2 else (-1, last)))))
        if g.chance(0.5):
            return g.new(F + g.pick(["max_pool2d", "avg_pool2d"]), y, g.pick([1, 2]), 1)
        return g.new(F + "conv2d", y, weight(2, 1, 1, g.pick([1, 2])), weight(2), 1, g.pick([0, 1]))
    if kind == 4:
        target = index_for(g, x.shape[1], (x.shape[0], *x.shape[2:]))
        return Instr(
            F + "cross_entropy", (v, target), {"reduction": g.pick(["mean", "sum", "none"])}, (g.name(),)
        )
    if kind == 5:
        other = g.like(x, same_dtype=True, exact=True)
        return g.new(F + g.pick(["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"]), v, other or v)
    if kind == 6 and x.dim() == 3:
        return g.new(F + "scaled_dot_product_attention", v, v, v, is_causal=g.chance(0.3))
    if kind == 7:
        return g.new(F + "batch_norm", v, None, None, weight(x.shape[1]), weight(x.shape[1]), True)
    if kind == 8:
        return g.new(F + g.pick(["normalize", "glu", "softmin", "gumbel_softmax"][:3]), v, dim=-1)
    return g.new("torch.einsum", "ij,kj->ik" if x.dim() == 2 else "bij,bkj->bik", v, v)


def foreach(g: Gen) -> Instr | None:
    found = g.var(lambda x: x.is_floating_point())
    if found is None:
        return None
    v, x = found
    others = [w for w in (g.like(x, same_dtype=True, exact=True) for _ in range(2)) if w is not None]
    first = tuple(dict.fromkeys((v, *others)))
    kind = g.rng.randrange(4)
    names = tuple(g.name() for _ in first)
    if kind == 0:
        return Instr(g.pick(["torch._foreach_add_", "torch._foreach_mul_"]), (first, g.number(x)))
    if kind == 1:
        return Instr(g.pick(["torch._foreach_add", "torch._foreach_mul"]), (first, g.number(x)), {}, names)
    if kind == 2:
        return Instr(
            g.pick(["torch._foreach_sqrt", "torch._foreach_neg", "torch._foreach_abs"]), (first,), {}, names
        )
    second = tuple(g.before(g.make(x.dtype, tuple(x.shape))) for _ in first)
    return Instr("torch._foreach_add_", (first, second), {"alpha": g.number(x)})
