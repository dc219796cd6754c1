"""Softmax, normalisations, attention and their gradients against PyTorch's CPU kernels."""

import math

import pytest
import torch

from tests.lowering.checks import check, replay

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.bfloat16]
INF, NAN = math.inf, math.nan


def test_softmax_of_special_rows():
    x = torch.tensor(
        [[1.0, NAN, 3.0], [INF, 2.0, INF], [-INF, -INF, -INF], [-INF, 0.0, 90.0], [1e30, -1e30, 0.0]]
    )
    for func in (aten._softmax.default, aten._log_softmax.default):
        check(func, x, 1, False)
        check(func, x, 0, False)
        check(func, torch.tensor(2.0), 0, False)
        check(func, torch.zeros(2, 0), 1, False)
    check(aten._safe_softmax.default, x, 1)


@pytest.mark.parametrize("dtype", FLOATS)
def test_softmax_gradients(dtype):
    g, y = torch.randn(3, 5).to(dtype), torch.randn(3, 5).softmax(1).to(dtype)
    check(aten._softmax_backward_data.default, g, y, 1, dtype)
    check(aten._log_softmax_backward_data.default, g, y.log(), 1, dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("affine", [True, False])
def test_layer_and_group_norm(dtype, affine):
    x, g = torch.randn(4, 6, 5).to(dtype), torch.randn(4, 6, 5).to(dtype)
    w, b = (torch.randn(6, 5).to(dtype) for _ in range(2)) if affine else (None, None)
    check(aten.native_layer_norm.default, x, [6, 5], w, b, 1e-5)
    _, mean, rstd = aten.native_layer_norm.default(x, [6, 5], w, b, 1e-5)
    check(aten.native_layer_norm_backward.default, g, x, [6, 5], mean, rstd, w, b, [True, affine, affine])
    w, b = (torch.randn(6).to(dtype) for _ in range(2)) if affine else (None, None)
    check(aten.native_group_norm.default, x, w, b, 4, 6, 5, 3, 1e-5)
    _, mean, rstd = aten.native_group_norm.default(x, w, b, 4, 6, 5, 3, 1e-5)
    check(aten.native_group_norm_backward.default, g, x, mean, rstd, w, 4, 6, 5, 3, [True, affine, affine])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("train", [True, False])
def test_batch_norm(dtype, train):
    x, g = torch.randn(4, 6, 5).to(dtype), torch.randn(4, 6, 5).to(dtype)
    # Half types keep their parameters and statistics in f32.
    stats = torch.float64 if dtype == torch.float64 else torch.float32
    w, b, rm, rv = (*(torch.randn(6, dtype=stats) for _ in range(3)), torch.rand(6, dtype=stats) + 0.5)
    check(aten._native_batch_norm_legit.default, x, w, b, rm.clone(), rv.clone(), train, 0.1, 1e-5)
    check(aten._native_batch_norm_legit_functional.default, x, w, b, rm, rv, train, 0.1, 1e-5)
    if train:
        check(aten._batch_norm_with_update.default, x, w, b, rm.clone(), rv.clone(), 0.1, 1e-5)
        check(aten._native_batch_norm_legit.no_stats, x, w, b, True, 0.1, 1e-5)
    _, mean, invstd = aten.native_batch_norm.default(x, w, b, rm.clone(), rv.clone(), train, 0.1, 1e-5)
    check(aten.native_batch_norm_backward.default, g, x, w, rm, rv, mean, invstd, train, 1e-5, [True] * 3)


def test_batch_norm_of_one_element_has_no_variance():
    x, one = torch.randn(1, 3), torch.ones(3)
    check(aten._native_batch_norm_legit.default, x, None, None, one.clone(), one.clone(), True, 0.1, 1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rms_norm(dtype):
    for scale in (1, 1e-3):  # the second shows the default epsilon
        check(
            aten._fused_rms_norm.default,
            (torch.randn(3, 8) * scale).to(dtype),
            [8],
            torch.ones(8).to(dtype),
            None,
        )
    x, w = torch.randn(3, 8).to(dtype).requires_grad_(), torch.randn(8).to(dtype).requires_grad_()
    g = torch.randn(3, 8).to(dtype)
    torch.rms_norm(x, [8], w, 1e-5).backward(g)
    wide = x.detach().to(torch.float64 if dtype == torch.float64 else torch.float32)
    rstd = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
    args = (g, x.detach(), [8], rstd, w.detach(), [True, True])
    replay(aten._fused_rms_norm_backward.default, args, (x.grad, w.grad))


@pytest.mark.parametrize("dim", [0, 2])
def test_weight_norm(dim):
    v, grad = torch.randn(4, 3, 5), torch.randn(4, 3, 5)
    g = torch.randn(4, 1, 1) if dim == 0 else torch.randn(1, 1, 5)
    check(aten._weight_norm_interface.default, v, g, dim)
    _, norms = aten._weight_norm_interface.default(v, g, dim)
    check(aten._weight_norm_interface_backward.default, grad, v, g, norms, dim)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("mask", ["none", "causal", "bias", "hidden row"])
def test_attention(dtype, mask):
    q, k, v = (torch.randn(2, 4, n, 8).to(dtype) for n in (6, 7, 7))
    bias = torch.randn(2, 1, 6, 7).to(dtype) if mask in ("bias", "hidden row") else None
    if mask == "hidden row":
        bias[0, 0, 1] = -INF
    causal = mask == "causal"
    flash = aten._scaled_dot_product_flash_attention_for_cpu
    check(flash.default, q, k, v, 0.0, causal, attn_mask=bias, scale=0.3)
    out, lse = flash.default(q, k, v, 0.0, causal, attn_mask=bias)
    grad = torch.randn_like(out)
    backward = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
    check(backward, grad, q, k, v, out, lse, 0.0, causal, attn_mask=bias)


@pytest.mark.parametrize(("causal", "biased"), [(False, True), (True, False)])
def test_overrideable_attention(causal, biased):
    q, k, v = (torch.randn(2, 4, 6, 8, requires_grad=True) for _ in range(3))
    bias = torch.randn(1, 4, 6, 6, requires_grad=True) if biased else None
    scores = q @ k.transpose(-1, -2) / math.sqrt(8)
    scores = scores + bias if biased else scores
    if causal:
        scores = scores.masked_fill(~torch.ones(6, 6, dtype=torch.bool).tril(), -INF)
    out, lse = scores.softmax(-1) @ v, scores.logsumexp(-1).detach()
    grad = torch.randn_like(out)
    grads = torch.autograd.grad(out, [q, k, v, *([bias] if biased else [])], grad)
    data = [t.detach() for t in (q, k, v)] + [bias.detach() if biased else None]
    zero = torch.zeros((), dtype=torch.int64)
    forward = aten._scaled_dot_product_fused_attention_overrideable.default
    replay(
        forward, (*data, 0.0, causal, False), (out.detach(), lse, None, None, None, None, zero, zero, None)
    )
    backward = aten._scaled_dot_product_fused_attention_overrideable_backward.default
    args = (
        grad,
        *data,
        [True, True, True, biased],
        out.detach(),
        lse,
        None,
        None,
        6,
        6,
        0.0,
        causal,
        zero,
        zero,
    )
    replay(backward, args, (*grads, *([] if biased else [None])))
