"""Foreach, fused optimizers, gradient scaling, recurrent cells and random numbers."""

import numpy as np
import pytest
import torch

from tests.lowering.checks import check, compare, replay, run

aten = torch.ops.aten


def tensors(dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).to(dtype) for shape in ((3, 4), (33,), (2, 1))]


A, B, C = tensors(), tensors(seed=1), [t.abs() + 0.5 for t in tensors(seed=2)]
UNARY = [
    "abs",
    "exp",
    "sqrt",
    "neg",
    "reciprocal",
    "rsqrt",
    "sign",
    "log",
    "tanh",
    "sigmoid",
    "floor",
    "round",
]


@pytest.mark.parametrize("name", UNARY)
def test_foreach_unary(name):
    check(getattr(aten, f"_foreach_{name}").default, C)


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max"])
def test_foreach_binary(name):
    op = getattr(aten, f"_foreach_{name}")
    check(op.List, A, C)
    check(op.Scalar, A, 2.5, lift={"scalar"})
    check(op.Scalar, [t.mul(9).long() for t in A], 2.5)
    check(op.ScalarList, A, [1.5, 2.5, 3.5])


def test_foreach_others():
    check(aten._foreach_add.List, A, B, alpha=2.0, lift={"alpha"})
    check(aten._foreach_mul.Tensor, [t.half() for t in A], torch.tensor(2.0))
    check(aten._foreach_pow.ScalarList, C, [2.0, 3.0, 0.5])
    for op in (aten._foreach_addcmul, aten._foreach_addcdiv):
        check(op.Scalar, A, B, C, 0.5, lift={"value"})
        check(op.ScalarList, A, B, C, [0.5, 1.0, 2.0])
        check(op.Tensor, A, B, C, torch.tensor([0.5, 1.0, 2.0]))
    check(aten._foreach_lerp.List, A, B, C)
    check(aten._foreach_lerp.Scalar, A, B, 0.3, lift={"weight"})
    check(aten._foreach_norm.Scalar, A, 2)


def check_in_place(func, *args, lift=()):
    """Every tensor that the call may write, wherever it stands, against PyTorch's."""
    args = [
        [t.clone() for t in a] if isinstance(a, list) else a.clone() if isinstance(a, torch.Tensor) else a
        for a in args
    ]
    names = [a.name for a in func._schema.arguments]
    at = next((i for i, a in enumerate(func._schema.arguments) if a.kwarg_only), len(args))
    recorder, _, error = run(func, *args[:at], lift=lift, **dict(zip(names[at:], args[at:])))
    assert error == -1
    for a, s in zip(args, func._schema.arguments):
        if s.alias_info and s.alias_info.is_write:
            for t in a if isinstance(a, list) else [a]:
                compare(f"{func} {s.name}", recorder.value_of(t), t)


SCALING = {"none": (None, None), "scaled": (4.0, 0.0), "skipped": (4.0, 1.0)}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("amsgrad", [True, False])
@pytest.mark.parametrize("scaling", SCALING)
@pytest.mark.parametrize("name", ["_fused_adam_", "_fused_adamw_"])
def test_fused_adam(name, scaling, amsgrad, dtype):
    scale, found = (None if v is None else torch.tensor(v) for v in SCALING[scaling])
    p, g, m = (tensors(dtype, seed) for seed in (3, 4, 5))
    v, most = ([t.abs() for t in tensors(dtype, seed)] for seed in (6, 7))
    steps = [torch.tensor(3.0) for _ in p]
    lists = (p, g, m, v, most if amsgrad else [], steps)
    rest = (0.9, 0.99, 0.1, 1e-8, amsgrad, False, scale, found)
    check_in_place(getattr(aten, name).default, *lists, 1e-2, *rest, lift={"lr"})
    check_in_place(getattr(aten, name).tensor_lr, *lists, torch.tensor(1e-2), *rest)


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("nesterov", [True, False])
@pytest.mark.parametrize("scaling", SCALING)
def test_fused_sgd(scaling, nesterov, first):
    scale, found = (None if v is None else torch.tensor(v) for v in SCALING[scaling])
    rest = (0.01, 0.9, 1e-2, 0.0, nesterov, False, first, scale, found)
    check_in_place(aten._fused_sgd_.default, tensors(seed=3), tensors(seed=4), tensors(seed=5), *rest)
    check_in_place(aten._fused_sgd_.default, A, B, [], 0.0, 0.0, 1e-2, 0.0, False, True, first, scale, found)


def test_fused_adagrad():
    steps = [torch.tensor(3.0) for _ in A]
    check_in_place(aten._fused_adagrad_.default, A, B, C, steps, 1e-2, 0.1, 0.01, 1e-8, False, None, None)


@pytest.mark.parametrize("bad", [False, True])
def test_gradient_scaling(bad):
    grads = tensors()
    if bad:
        grads[1][5] = float("inf")
    unscale = aten._amp_foreach_non_finite_check_and_unscale_.default
    check_in_place(unscale, grads, torch.zeros(1), torch.tensor([0.5]))
    for tracker in (0, 1):
        counter = torch.tensor([tracker], dtype=torch.int32)
        found = torch.tensor([float(bad)])
        check_in_place(aten._amp_update_scale_.default, torch.tensor([65536.0]), counter, found, 2.0, 0.5, 2)


class Ours:
    """A stand-in for an operator of the library "dendrite", which only the device registers."""

    def __init__(self, signature):
        self.name = signature.split("(")[0]
        self._schema = torch._C.parse_schema(f"dendrite::{signature}")

    def __str__(self):
        return f"dendrite.{self.name}.default"


GATES = (
    "Tensor input_gates, Tensor hidden_gates, Tensor state, Tensor? input_bias=None, Tensor? hidden_bias=None"
)


def lstm(gates, cx):
    i, f, g, o = gates.chunk(4, 1)
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    cy = f * cx + i * g
    return o * cy.tanh(), cy, torch.cat([i, f, g, o], 1)


def test_lstm_cell():
    a, b, cx, bias = torch.randn(3, 20), torch.randn(3, 20), torch.randn(3, 5), torch.randn(20)
    gates = (a + b).requires_grad_()
    state = cx.clone().requires_grad_()
    hy, cy, workspace = lstm(gates, state)
    want = [t.detach() for t in (hy, cy, workspace)]
    cell = Ours(f"lstm_cell({GATES}) -> (Tensor, Tensor, Tensor)")
    replay(cell, (a, b, cx), want)
    replay(cell, (a, b - bias, cx, bias, None), want)
    grads = torch.randn(3, 5), torch.randn(3, 5)
    d_gates, d_cx = torch.autograd.grad([hy, cy], [gates, state], grads)
    backward = Ours(
        "lstm_cell_backward(Tensor? grad_hy, Tensor? grad_cy, Tensor cx, Tensor cy, Tensor workspace, bool has_bias)"
        " -> (Tensor, Tensor, Tensor)"
    )
    replay(backward, (*grads, cx, want[1], want[2], True), [d_gates, d_cx, d_gates.sum(0)])


def test_gru_cell():
    a, b, hx = (torch.randn(3, n).requires_grad_() for n in (15, 15, 5))
    (ir, iz, i_n), (hr, hz, hn) = a.chunk(3, 1), b.chunk(3, 1)
    r, z = (ir + hr).sigmoid(), (iz + hz).sigmoid()
    n = (i_n + r * hn).tanh()
    hy, workspace = n + z * (hx - n), torch.cat([r, z, n, hx, hn], 1).detach()
    inputs = [t.detach() for t in (a, b, hx)]
    replay(Ours(f"gru_cell({GATES}) -> (Tensor, Tensor)"), tuple(inputs), [hy.detach(), workspace])
    grad = torch.randn(3, 5)
    d = torch.autograd.grad([hy], [a, b, hx], [grad])
    want = [*d, d[0].sum(0), d[1].sum(0)]
    backward = Ours(
        "gru_cell_backward(Tensor grad, Tensor workspace, bool has_bias) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
    )
    replay(backward, (grad, workspace, True), want)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn_tanh", "rnn_relu"])
def test_recurrent_layer(kind, dtype):
    layer = Ours(
        "recurrent_layer(str kind, Tensor input, Tensor hx, Tensor? cx, Tensor w_ih, Tensor w_hh, Tensor? b_ih, "
        "Tensor? b_hh, int[] batch_sizes, bool reverse, bool keep) -> (Tensor, Tensor, Tensor, Tensor)"
    )
    gates = {"lstm": 4, "gru": 3}.get(kind, 1)
    x, hx, cx = (torch.randn(shape, dtype=dtype) for shape in ((6, 2, 3), (2, 5), (2, 5)))
    weights = [
        torch.randn(shape, dtype=dtype) for shape in ((gates * 5, 3), (gates * 5, 5), gates * 5, gates * 5)
    ]
    first = [hx[None], cx[None]] if kind == "lstm" else hx[None]
    output, *last = getattr(torch, kind)(x, first, weights, True, 1, 0.0, False, False, False)
    states = [t[0] for t in last] + [torch.empty(0, dtype=dtype)] * (3 - len(last))
    replay(
        layer, (kind, x, hx, cx if kind == "lstm" else None, *weights, [], False, False), [output, *states]
    )


def philox(seed, offset, blocks):
    """Words [blocks, 4] of Philox-4x32-10, as csrc/base/philox.h numbers them."""
    b = np.arange(blocks, dtype=np.uint64) + np.uint64(offset)
    low = np.uint64(0xFFFFFFFF)
    c = [b & low, b >> np.uint64(32), np.zeros_like(b), np.zeros_like(b)]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        k0, k1 = np.uint64(key[0]), np.uint64(key[1])
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ k0, p1 & low, (p0 >> np.uint64(32)) ^ c[3] ^ k1, p0 & low]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(c, 1)


SEED, OFFSET = 12345678901234, 7


def drawing(name, parameters, returns="Tensor"):
    return Ours(f"{name}(Tensor self, int seed, int offset, {parameters}) -> {returns}")


@pytest.mark.parametrize("n", [1, 2, 3, 7, 1000])
def test_random_bits(n):
    narrow = philox(SEED, OFFSET, (n + 3) // 4).reshape(-1)[:n]
    pairs = philox(SEED, OFFSET, (n + 1) // 2).reshape(-1, 2)[:n]
    wide = pairs[:, 0] | pairs[:, 1] << np.uint64(32)
    u = torch.from_numpy((narrow >> np.uint64(8)).astype(np.float32)) * 2.0**-24
    start = (torch.empty(n), SEED, OFFSET)
    uniform = drawing("uniform", "float a, float b")
    replay(uniform, (*start, 0.0, 1.0), [u])
    fine = torch.from_numpy((wide >> np.uint64(11)).astype(np.float64)) * 2.0**-53
    replay(uniform, (start[0].double(), SEED, OFFSET, 0.0, 1.0), [fine])
    half = torch.from_numpy((narrow >> np.uint64(21)).astype(np.float32)) * 2.0**-11
    replay(uniform, (start[0].half(), SEED, OFFSET, 0.0, 1.0), [half.half()])
    replay(drawing("bernoulli", "float p"), (*start, 0.3), [(u.double() < 0.3).float()])
    integers = torch.from_numpy((wide % np.uint64(13)).astype(np.int64)) - 3
    replay(drawing("random", "int a, int b"), (start[0].long(), SEED, OFFSET, -3, 10), [integers])
    dropout = drawing("native_dropout", "float p", "(Tensor, Tensor)")
    mask, x = u.double() < 0.7, torch.randn(n)
    replay(dropout, (x, SEED, OFFSET, 0.3), [x * mask * float(1 / (1 - 0.3)), mask])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool], ids=str)
def test_dropout_backward(dtype):
    """A gradient of whole numbers has a result of the default type."""
    grad, mask = (torch.arange(12.0) % 5 - 1).to(dtype), torch.arange(12) % 3 > 0
    check(aten.native_dropout_backward.default, grad, mask, 1.25)


def test_random_reals():
    words = philox(SEED, OFFSET, 250).reshape(-1).astype(np.float64)
    open01 = torch.from_numpy((words.astype(np.float32) + np.float32(0.5)) * np.float32(2.0**-32))
    uniform = torch.from_numpy((words // 256).astype(np.float32)) * 2.0**-24
    radius, angle = (-2 * open01[0::2].log()).sqrt(), 2 * np.pi * uniform[1::2]
    normal = torch.stack([radius * angle.cos(), radius * angle.sin()], 1).reshape(-1)
    start = (torch.empty(1000), SEED, OFFSET)
    replay(drawing("normal", "float mean, float std"), (*start, 1.0, 2.0), [normal * 2 + 1])
    replay(drawing("exponential", "float lambd"), (*start, 2.0), [-open01.log().clamp(max=-(2.0**-24)) / 2])


def test_random_permutation():
    pairs = philox(SEED, OFFSET, 50).reshape(-1, 2)
    keys = pairs[:, 0] | pairs[:, 1] << np.uint64(32)
    want = torch.from_numpy(np.argsort(keys, kind="stable"))
    permutation = drawing("randperm", "int unused=0")
    replay(permutation, (torch.empty(100, dtype=torch.int64), SEED, OFFSET), [want])
