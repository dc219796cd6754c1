"""Pointwise lowerings against PyTorch's CPU kernels: special values, dtypes, promotion, in-place and out= forms."""

import math

import pytest
import torch

from tests.lowering.harness import Recorder, get_library

INF, NAN = math.inf, math.nan
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 6.0, 7.3, -7.3, 1e-4, -1e-4, 20.5, -20.5, 90.0,
           -90.0, INF, -INF, NAN]  # fmt: skip
FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]
INTS = [torch.int32, torch.int64, torch.uint8, torch.int8, torch.bool]
# The spacing of f32 numbers is 1.2e-7; compilers' polynomials are good to a few of them.
TOLERANCE = {torch.float32: (3e-6, 1e-6), torch.float64: (1e-12, 1e-13), torch.bfloat16: (1e-2, 1e-2),
             torch.float16: (1e-2, 1e-3), torch.complex64: (1e-5, 1e-6)}  # fmt: skip


@pytest.fixture(autouse=True)
def fixed_seed():
    torch.manual_seed(0)


def floats(dtype, *shape):
    if shape:
        return (torch.randn(*shape, dtype=torch.float64) * 2).to(dtype)
    return torch.cat(
        [torch.tensor(SPECIAL, dtype=torch.float64), torch.randn(73, dtype=torch.float64) * 3]
    ).to(dtype)


def ints(dtype, n=64):
    if dtype == torch.bool:
        return torch.arange(n) % 3 == 0
    low = 0 if dtype == torch.uint8 else -9
    return torch.randint(low, 12, (n,)).to(dtype)


def inputs(dtype):
    return floats(dtype) if dtype.is_floating_point else ints(dtype)


def check(call, *, lift=(), host_visible=True, atol=0):
    """Records `call`, runs it, and compares everything that it returned."""
    recorder = Recorder(lift=lift, host_visible=host_visible)
    with recorder:
        results = call()
    results = results if isinstance(results, (tuple, list)) else (results,)
    assert recorder.run() == -1
    for i, want in enumerate(results):
        got = recorder.value_of(want)
        rtol, least = TOLERANCE.get(want.dtype, (0, 0))
        limits = dict(rtol=rtol, atol=max(atol, least), equal_nan=True)
        try:
            torch.testing.assert_close(got, want, **limits)
        except AssertionError as e:
            bad = ~torch.isclose(got.to(want.dtype), want, **limits)
            hlo = get_library().dendrite_harness_stablehlo().decode()
            raise AssertionError(
                f"result {i}: {e}\n got {got[bad][:8]}\nwant {want[bad][:8]}\n{hlo}"
            ) from None


UNARY = """abs acos acosh asin asinh atan atanh ceil cos cosh erf erfc erfinv exp exp2 expm1 floor frac isfinite isinf
isnan isneginf isposinf log log10 log1p log2 logical_not logit nan_to_num neg reciprocal relu round rsqrt sgn sigmoid
sign signbit sin sinc sinh sqrt square tan tanh trunc deg2rad rad2deg""".split()
NO_BOOL = {"neg", "floor", "ceil", "trunc", "round", "frac", "relu", "abs", "sign"}


@pytest.mark.parametrize("op", UNARY)
def test_unary(op):
    fn = getattr(torch, op)
    args = [floats(t) for t in FLOATS]
    for t in INTS:
        try:
            fn(ints(t))
        except RuntimeError:
            continue
        args.append(ints(t))
    if op == "tan":  # poles amplify the last place of the argument
        args = [a.clamp(-1.4, 1.4) if a.dtype.is_floating_point else a for a in args]
    check(lambda: [fn(a) for a in args])


BINARY = """add sub mul div floor_divide remainder fmod maximum minimum fmax fmin atan2 hypot logaddexp logaddexp2
copysign xlogy heaviside
eq ne lt le gt ge logical_and logical_or logical_xor pow""".split()
DIVISIONS = {"floor_divide", "remainder", "fmod"}


@pytest.mark.parametrize("op", BINARY)
def test_binary(op):
    fn = getattr(torch, op)
    pairs = []
    for t in FLOATS:
        x, y = torch.meshgrid(floats(t)[:23], floats(t)[:23], indexing="ij")
        pairs.append((x.contiguous(), y.contiguous()))
    for t in (torch.int32, torch.int64, torch.uint8, torch.bool):
        x, y = ints(t), ints(t).flip(0)
        if op in DIVISIONS:
            y = torch.where(y == 0, torch.ones_like(y), y)
        if op == "pow" and t != torch.bool:
            y = y.abs()
        pairs.append((x, y))
    calls = []
    for pair in pairs:
        try:
            fn(*pair)
        except RuntimeError:
            continue
        calls.append(pair)
    assert calls
    check(lambda: [fn(*pair) for pair in calls])


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div", "eq", "lt", "pow", "maximum", "where"])
def test_promotion(op):
    kinds = [torch.float32, torch.float64, torch.bfloat16, torch.int32, torch.int64, torch.uint8, torch.bool]
    fn = getattr(torch, op)
    calls = []
    for s in kinds:
        for t in kinds:
            u, v = ints(s, 5), ints(torch.uint8, 5).to(t)
            for x, y in [(u, v), (u, v[1]), (u[1], v), (u[1], v[2])]:
                args = (y > 1, x, y) if op == "where" else (x, y)
                try:
                    fn(*args)
                except RuntimeError:
                    continue
                calls.append(args)
    check(lambda: [fn(*args) for args in calls])


@pytest.mark.parametrize(
    "lift", [(), ("other", "alpha", "exponent", "value", "weight")], ids=["constant", "lifted"]
)
def test_numbers(lift):
    x = [floats(t, 6) for t in FLOATS] + [ints(t, 6) for t in (torch.int32, torch.int64, torch.uint8)]

    def call():
        out = []
        for a in x:
            out += [
                a + 2,
                a * 3,
                a - 1,
                2 - a,
                a / 3,
                a + 0.1,
                a * 0.1,
                a / 0.3,
                a - 0.7,
                1.5 - a,
                a == 2,
                a > 0.5,
            ]
            out += [a % 3, a // 3, a.fmod(2), a**2, a**3, torch.add(a, a, alpha=2)]
            if a.dtype.is_floating_point:
                out += [a.abs() ** 0.5, a.abs() ** -1.5, 2.0**a, torch.sub(a, a, alpha=0.3)]
                out += [torch.addcmul(a, a, a, value=0.5), torch.addcdiv(a, a, a.abs() + 1, value=0.5)]
                out += [torch.lerp(a, a * 2, 0.3), torch.lerp(a, a * 2, 0.8), torch.lerp(a, a * 2, a)]
                out += [
                    a.masked_fill(a > 0, 0.1),
                    a.masked_fill(a > 0, torch.tensor(2.0)),
                    a.round(decimals=1),
                ]
                out += [torch.div(a, 0.7, rounding_mode="floor"), torch.div(a, 0.7, rounding_mode="trunc")]
                out += [torch.div(a, a.flip(0) + 0.1, rounding_mode=m) for m in ("floor", "trunc")]
                out += [torch.nan_to_num(a, 1.0, 2.0, 3.0), torch.logit(a, 0.2), torch.xlogy(a, 2.0)]
            else:
                out += [a & 3, a | 4, a ^ 5, ~a, a << 2, a >> 1, torch.div(a, 3, rounding_mode="floor")]
                out += [torch.div(a, 2, rounding_mode="trunc"), a << a, a >> a, a << 70, a >> 70]
        return out

    check(call, lift=lift)


@pytest.mark.parametrize("lift", [(), ("alpha",)], ids=["constant", "lifted"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_alpha_is_of_the_operands_type(dtype, lift):
    """Where CPU's kernel rounds it, the difference is more than the sum's own rounding."""
    x, y = torch.zeros(64, dtype=dtype), torch.full((64,), 1.0, dtype=dtype)
    alpha = 1 + 2.0**-12
    recorder = Recorder(lift=lift)
    with recorder:
        sums = [torch.add(x - 1, y, alpha=alpha), torch.sub(x + 1, y, alpha=alpha)]
    assert recorder.run() == -1
    assert [s[0].item() for s in sums] == [0, 0]
    assert [recorder.value_of(s)[0].item() for s in sums] == [0, 0]


def test_clamp():
    x = floats(torch.float32)
    low, high = torch.randn(len(x)) - 1, torch.randn(len(x)) + 1
    i = ints(torch.int64)
    check(lambda: [x.clamp(-1, 1), x.clamp(min=0.5), x.clamp(max=0.5), x.clamp(low, high), x.clamp_min(0.0),
                   x.clamp_max(1.0), torch.clamp_min(x, low), torch.clamp_max(x, high), i.clamp(-1, 2),
                   i.clamp(0.5, 2.5)])  # fmt: skip


F = torch.nn.functional
ACTIVATIONS = {
    "relu": F.relu, "leaky_relu": lambda x: F.leaky_relu(x, 0.2), "elu": lambda x: F.elu(x, 1.3), "selu": F.selu,
    "celu": lambda x: F.celu(x, 0.7), "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu, "mish": F.mish, "softplus": lambda x: F.softplus(x, 1.5, 10.0), "hardtanh": F.hardtanh,
    "hardswish": F.hardswish, "hardsigmoid": F.hardsigmoid, "relu6": F.relu6, "sigmoid": torch.sigmoid,
    "tanh": torch.tanh, "hardshrink": F.hardshrink, "softshrink": F.softshrink, "logsigmoid": F.logsigmoid,
    "threshold": lambda x: F.threshold(x, 0.3, 2.0),
    "prelu": lambda x: F.prelu(x, torch.tensor([0.3], dtype=x.dtype)), "logit": lambda x: torch.logit(x, 0.1),
}  # fmt: skip


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activation_and_its_gradient(name):
    def call():
        out = []
        for t in (torch.float32, torch.float64, torch.bfloat16):
            x = values[t].clone().requires_grad_()
            y = ACTIVATIONS[name](x)
            out += [y, *torch.autograd.grad(y, x, grads[t])]
        return [o.detach() for o in out]

    # Infinities beside infinities make NaN in different places of equally good formulas.
    values = {t: floats(t)[torch.isfinite(floats(t))] for t in FLOATS}
    values = {t: v[:80] for t, v in values.items()}
    grads = {t: torch.randn(len(v), dtype=torch.float64).to(t) for t, v in values.items()}
    check(
        call, atol=1e-5 if name == "gelu_tanh" else 0
    )  # far out, PyTorch's own formula is left with rounding errors


def test_conversions():
    kinds = [torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.int64, torch.uint8,
             torch.int8, torch.int16, torch.bool, torch.complex64]  # fmt: skip
    x = torch.tensor([0, 1, -1, 2.5, -2.5, 100, 127, 1e-3, 0.9999])
    from_ = [x.to(t) if t != torch.bool else x > 0 for t in kinds]
    check(lambda: [a.to(t) for a in from_ for t in kinds if not (a.is_complex() and t == torch.bool)])


def test_factories():
    n = torch.zeros(3, 4)
    check(lambda: [torch.zeros(2, 3), torch.ones(3, dtype=torch.int64), torch.full((2,), 1.5), torch.arange(7),
                   torch.arange(1, 2, 0.1), torch.arange(3, 20, 4), torch.zeros_like(n), torch.ones_like(n),
                   torch.full_like(n, 3.25), torch.linspace(-1, 1, 11), torch.linspace(0, 5, 4), torch.eye(3),
                   torch.eye(2, 4, dtype=torch.int32), n.new_full((2,), 4.0), torch.zeros(0, 3),
                   torch.arange(0)])  # fmt: skip


def test_complex():
    x = torch.randn(9, dtype=torch.complex64)
    y = torch.randn(9, dtype=torch.complex64)
    check(lambda: [x + y, x * y, x - y, x / y, x.abs(), x.exp(), x.sin(), x == y, x.sgn(), x.angle(), x.conj() * y,
                   torch.complex(x.real, y.imag), torch.polar(x.abs(), y.angle()), x * 2, x + 1.5j, x.conj_physical(),
                   x.conj().imag + 1, x.sqrt(), x.reciprocal()])  # fmt: skip


def test_in_place_and_out():
    x, y, i = floats(torch.float32, 4, 6), floats(torch.float32, 6), torch.arange(24).reshape(4, 6)
    wide = torch.empty(4, 6, dtype=torch.float64)
    half = floats(torch.bfloat16, 4, 6)

    def call():
        x.add_(y, alpha=0.5).mul_(x)
        x.t()[2].exp_()
        i.add_(3)
        half.mul_(0.1)
        torch.add(x, y, out=wide)
        x[:, ::2].copy_(y[:3])
        i.copy_(x)
        return x, i, wide, half

    check(call, atol=1e-3)  # wide holds what f32 arithmetic gave
