"""Operators that compiled code calls PyTorch's CPU kernels for: values and strides are CPU's, in every layout."""

import pytest
import torch

from tests.python.support import target, tier

aten = torch.ops.aten

# Elsewhere the same values come from the same kernels at tier 0, or from compiled code alone.
CALLED = tier() == "compiled" and target() == "embedded"


def heads(batch, length, count, width):
    """As a model makes them: [batch, heads, length, width] over [batch, length, heads * width]."""
    return torch.randn(batch, length, count * width).view(batch, length, count, width).transpose(1, 2)


def attention(causal, mask=None):
    def run(q, k, v, g):
        out, lse = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, causal, attn_mask=mask)
        grads = aten._scaled_dot_product_flash_attention_for_cpu_backward(
            g, q, k, v, out, lse, 0.0, causal, attn_mask=mask
        )
        return out, lse, *grads

    return run


def layer_norm(x, w, b, g):
    y, mean, rstd = aten.native_layer_norm(x, [64], w, b, 1e-5)
    return y, mean, rstd, *aten.native_layer_norm_backward(g, x, [64], mean, rstd, w, b, [True, True, True])


def group_norm(x, w, b, g):
    y, mean, rstd = aten.native_group_norm(x, w, b, 4, 16, 100, 4, 1e-5)
    return (
        y,
        mean,
        rstd,
        *aten.native_group_norm_backward(g, x, mean, rstd, w, 4, 16, 100, 4, [True, True, True]),
    )


def batch_norm(x, w, b, g):
    _y, mean, rstd = aten.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)
    return aten.native_batch_norm_backward(g, x, w, None, None, mean, rstd, True, 1e-5, [True, True, True])


def max_pool(x, g):
    indices = aten.max_pool2d_with_indices(x, [2, 2], [2, 2])[1]
    return aten.max_pool2d_with_indices_backward(g, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices)


CASES = {
    "batch_norm": (batch_norm, [(4, 16, 10, 10), (16,), (16,), (4, 16, 10, 10)], None),
    "max_pool": (max_pool, [(4, 16, 16, 16), (4, 16, 8, 8)], None),
    "nearest": (
        lambda g: aten.upsample_nearest2d_backward(g, [16, 16], [4, 8, 8, 8]),
        [(4, 8, 16, 16)],
        None,
    ),
    "cumsum": (lambda x: x.cumsum(1), [(8, 16, 64)], None),
    "sort": (lambda x: torch.sort(x, dim=1, descending=True), [(8, 64, 16)], None),
    "sort_stable": (lambda x: torch.sort(x.round(), dim=-1, stable=True), [(64, 64)], None),
    "topk": (lambda x: torch.topk(x, 5), [(64, 128)], None),
    "layer_norm": (layer_norm, [(8, 16, 64), (64,), (64,), (8, 16, 64)], None),
    "group_norm": (group_norm, [(4, 16, 10, 10), (16,), (16,), (4, 16, 10, 10)], None),
    "softmax": (lambda y, g: aten._softmax_backward_data(g, y, -1, torch.float32), [(8, 16, 64)] * 2, None),
    "softmax_dim_0": (
        lambda y, g: aten._softmax_backward_data(g, y, 0, torch.float32),
        [(64, 16, 8)] * 2,
        None,
    ),
    "attention": (attention(False), None, [(2, 32, 4, 16)] * 4),
    "attention_causal": (attention(True), None, [(2, 32, 4, 16)] * 4),
    "attention_lengths": (
        attention(False),
        None,
        [(2, 16, 4, 32), (2, 64, 4, 32), (2, 64, 4, 32), (2, 16, 4, 32)],
    ),
}


def calls(device, function, *inputs):
    """How many kernels by name ran for one call of `function`, and its results."""
    inputs = [t.to(device) for t in inputs]
    torch.accelerator.synchronize()
    before = torch.neuron.stats()["kernels_by_name"]
    results = function(*inputs)
    torch.accelerator.synchronize()
    return torch.neuron.stats()["kernels_by_name"] - before, results


@pytest.mark.smoke
@pytest.mark.parametrize("name", CASES)
def test_values_and_strides(mode, name):
    function, shapes, in_heads = CASES[name]
    torch.manual_seed(0)
    inputs = [torch.randn(s) for s in shapes] if shapes else [heads(*s) for s in in_heads]
    mode.same(function, *inputs, rtol=1e-4, atol=1e-5)
    with mode.active():
        count, results = calls(mode.device, mode.wrap(function), *inputs)
    assert not CALLED or count > 0
    expected = function(*inputs)
    if not isinstance(expected, torch.Tensor) and not mode.compiled:  # a graph's results have its own layouts
        assert [t.stride() for t in results] == [t.stride() for t in expected]


@pytest.mark.smoke
def test_unwanted_results_and_arguments_left_out(mode):
    def function(x, g):
        y, mean, rstd = aten.native_layer_norm(x, [64], None, None, 1e-5)
        grads = aten.native_layer_norm_backward(g, x, [64], mean, rstd, None, None, [True, False, False])
        assert grads[1] is None
        assert grads[2] is None
        return y, grads[0]

    torch.manual_seed(0)
    mode.same(function, torch.randn(64, 64), torch.randn(64, 64), rtol=1e-4, atol=1e-5)


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("shape", "dtype"), [((64, 64), torch.bfloat16), ((64, 64), torch.float64), ((4, 64), None)]
)
def test_other_types_and_small_tensors_are_compiled(device, shape, dtype):
    x = torch.randn(shape, dtype=dtype)
    y = torch.softmax(x, -1)

    def function(g, y):
        return aten._softmax_backward_data(g, y, -1, y.dtype)

    with torch.neuron.execution_mode("adaptive"):
        count, result = calls(device, function, x, y)
    torch.testing.assert_close(result.cpu(), function(x, y))
    assert count == 0
