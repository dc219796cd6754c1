"""Convolutions, pooling and resampling against PyTorch's CPU kernels."""

import math

import pytest
import torch

from tests.lowering.checks import check, compare, run

aten = torch.ops.aten
INF, NAN = math.inf, math.nan
TYPES = [torch.float32, torch.float64, torch.bfloat16]

GEOMETRY = {  # stride, padding, dilation, groups, transposed, output padding
    "plain": (1, 0, 1, 1, False, 0),
    "strided": (2, 1, 1, 1, False, 0),
    "dilated, grouped": (2, 1, 2, 2, False, 0),
    "depthwise": (1, 2, 1, 4, False, 0),
    "transposed": (2, 1, 1, 1, True, 1),
    "transposed, dilated, grouped": (3, 1, 2, 2, True, 2),
}


@pytest.mark.parametrize("spatial", [1, 2, 3])
@pytest.mark.parametrize("case", GEOMETRY)
def test_convolution(case, spatial):
    stride, padding, dilation, groups, transposed, output_padding = GEOMETRY[case]
    torch.manual_seed(0)
    x, bias = (
        torch.randn([2, 4, 9, 8, 7][: spatial + 2], dtype=torch.float64),
        torch.randn(8, dtype=torch.float64),
    )
    shape = [4, 8 // groups] if transposed else [8, 4 // groups]
    w = torch.randn([*shape, *[3, 2, 3][:spatial]], dtype=torch.float64)
    each = [[v] * spatial for v in (stride, padding, dilation)]
    geometry = (*each, transposed, [output_padding] * spatial, groups)
    check(aten.convolution.default, x, w, bias, *geometry)
    check(aten.convolution.default, x, w, None, *geometry)
    grad = torch.randn_like(aten.convolution.default(x, w, bias, *geometry))
    check(aten.convolution_backward.default, grad, x, w, [8], *geometry, [True, True, True])


def check_convolution(x, w, padding, groups, transposed=False):
    spatial = x.dim() - 2
    ones, zeros = [1] * spatial, [0] * spatial
    geometry = (ones, [padding] * spatial, ones, transposed, zeros, groups)
    check(aten.convolution.default, x, w, None, *geometry)
    y = aten.convolution.default(x, w, None, *geometry)
    channels = [y.shape[1]]
    mask = [True, True, False]
    check(aten.convolution_backward.default, torch.randn_like(y), x, w, channels, *geometry, mask)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("padding", [0, 1, 3])  # 3 is more than the window, so gradients are cut
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_depthwise_convolution(spatial, padding, dtype):
    torch.manual_seed(0)
    x = torch.randn([2, 4, 9, 8, 7][: spatial + 2], dtype=dtype)
    check_convolution(x, torch.randn([4, 1, 3, 2, 3][: spatial + 2], dtype=dtype), padding, groups=4)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spatial", [1, 2, 3])
def test_convolution_with_a_window_of_one_element(spatial, dtype, transposed):
    torch.manual_seed(0)
    x = torch.randn([2, 4, 9, 8, 7][: spatial + 2], dtype=dtype)
    channels = [4, 6] if transposed else [6, 4]
    w = torch.randn(*channels, *[1] * spatial, dtype=dtype)
    check_convolution(x, w, 0, 1, transposed)


POOLS = {  # window, stride, padding, dilation, ceil mode
    "side by side": ([2, 2], [2, 2], [0, 0], [1, 1], False),
    "overlapping": ([3, 3], [2, 2], [1, 1], [1, 1], False),
    "dilated, ceil": ([3, 2], [2, 1], [1, 1], [2, 1], True),
    "cut at the end": ([3, 3], [3, 3], [0, 0], [1, 1], True),
    "large": ([9, 8], [1, 1], [0, 0], [1, 1], False),
    "large, padded": ([9, 9], [2, 2], [4, 4], [1, 1], True),
}


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("case", POOLS)
def test_max_pool(case, dtype):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 17, 16).to(dtype)
    x[0, 0, 3, 3], x[0, 1, :5, :5], x[1, 0, 2, 2] = NAN, -INF, INF
    check(aten.max_pool2d_with_indices.default, x, *POOLS[case])
    x = torch.randn(2, 3, 17, 16).to(dtype)
    y, indices = aten.max_pool2d_with_indices.default(x, *POOLS[case])
    grad = torch.randn(y.shape).to(dtype)
    if dtype == torch.bfloat16:  # PyTorch's sums round at every step
        _, results, error = run(aten.max_pool2d_with_indices_backward.default, grad, x, *POOLS[case], indices)
        assert error == -1
        assert results[0].shape == x.shape
    else:
        check(aten.max_pool2d_with_indices_backward.default, grad, x, *POOLS[case], indices)


@pytest.mark.parametrize("divisor", [None, 3])
@pytest.mark.parametrize("include_pad", [True, False])
@pytest.mark.parametrize("case", POOLS)
def test_avg_pool(case, include_pad, divisor):
    window, stride, padding, _, ceil = POOLS[case]
    torch.manual_seed(0)
    x = torch.randn(2, 3, 17, 16)
    rest = (window, stride, padding, ceil, include_pad, divisor)
    check(aten.avg_pool2d.default, x, *rest)
    check(aten.avg_pool2d_backward.default, torch.randn_like(aten.avg_pool2d.default(x, *rest)), x, *rest)


def test_pool_3d():
    torch.manual_seed(0)
    x = torch.randn(2, 3, 7, 8, 9)
    most = ([2, 3, 2], [2, 2, 1], [1, 1, 1], [1, 1, 1], False)
    check(aten.max_pool3d_with_indices.default, x, *most)
    y, indices = aten.max_pool3d_with_indices.default(x, *most)
    check(aten.max_pool3d_with_indices_backward.default, torch.randn_like(y), x, *most, indices)
    mean = ([2, 3, 2], [2, 2, 1], [1, 1, 1], False, False, None)
    check(aten.avg_pool3d.default, x, *mean)
    check(aten.avg_pool3d_backward.default, torch.randn_like(y), x, *mean)


@pytest.mark.parametrize("out", [[1, 1], [3, 5], [4, 4], [7, 7], [20, 3]])
def test_adaptive_pool(out):
    torch.manual_seed(0)
    x, grad = torch.randn(2, 3, 16, 12), torch.randn(2, 3, *out)
    check(aten._adaptive_avg_pool2d.default, x, out)
    check(aten._adaptive_avg_pool2d_backward.default, grad, x)
    check(aten.adaptive_max_pool2d.default, x, out)
    check(aten.adaptive_max_pool2d_backward.default, grad, x, aten.adaptive_max_pool2d.default(x, out)[1])


SIZES = [((4, 5), (8, 10), 2.0), ((4, 5), (8, 10), None), ((7, 6), (3, 11), None), ((7, 6), (10, 9), 1.5)]
SIZES += [((3, 3), (64, 64), None), ((4, 4), (4, 4), None), ((5, 4), (1, 1), None)]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("sizes", SIZES)
def test_nearest(sizes, dtype):
    small, large, scale = sizes
    x, grad = torch.randn(2, 3, *small).to(dtype), torch.randn(2, 3, *large).to(dtype)
    for name in ("upsample_nearest2d", "_upsample_nearest_exact2d"):
        check(getattr(aten, name).default, x, large, scale, scale)
        if dtype != torch.bfloat16:
            check(getattr(aten, f"{name}_backward").default, grad, large, list(x.shape), scale, scale)


@pytest.mark.parametrize("align", [True, False])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", ["bilinear", "bicubic"])
def test_interpolation(kind, sizes, align):
    small, large, scale = sizes
    for dtype in (torch.float32, torch.float64):
        x, grad = torch.randn(2, 3, *small).to(dtype), torch.randn(2, 3, *large).to(dtype)
        forward, backward = (getattr(aten, f"upsample_{kind}2d{s}").default for s in ("", "_backward"))
        for func, args in ((forward, (x, large)), (backward, (grad, large, list(x.shape)))):
            recorder, (want,), error = run(func, *args, align, scale, scale)
            assert error == -1
            torch.testing.assert_close(recorder.value_of(want), want, rtol=1e-4, atol=1e-4)


def test_other_ranks():
    x, line = torch.randn(1, 2, 3, 4, 5), torch.randn(1, 2, 5)
    check(aten.upsample_nearest3d.default, x, [6, 8, 10])
    check(aten.upsample_trilinear3d.default, x, [6, 8, 10], False)
    check(
        aten.upsample_trilinear3d_backward.default,
        torch.randn(1, 2, 6, 8, 10),
        [6, 8, 10],
        list(x.shape),
        True,
    )
    check(aten.upsample_nearest1d.default, line, [7])
    check(aten.upsample_linear1d.default, line, [7], True)
    check(aten.upsample_linear1d_backward.default, torch.randn(1, 2, 7), [7], [1, 2, 5], False)


@pytest.mark.parametrize("window", [([3, 2], [1, 1], [0, 0], [1, 1]), ([3, 3], [2, 1], [1, 2], [2, 1])])
@pytest.mark.parametrize("shape", [(2, 3, 8, 10), (3, 8, 10)])
def test_columns(window, shape):
    x = torch.randn(shape)
    check(aten.im2col.default, x, *window)
    check(aten.col2im.default, torch.randn_like(aten.im2col.default(x, *window)), [8, 10], *window)


def test_compare_sees_a_difference():
    with pytest.raises(AssertionError):
        compare("probe", torch.zeros(2), torch.ones(2))


@pytest.mark.parametrize("mode", [0, 1])
@pytest.mark.parametrize("padding", [0, 1, 2])
@pytest.mark.parametrize("aligned", [True, False])
def test_grid_sampling(mode, padding, aligned):
    torch.manual_seed(0)
    x, grid = torch.randn(2, 3, 5, 4), torch.rand(2, 6, 7, 2) * 5 - 2.5
    grid[0, 0, 0], grid[0, 0, 1], grid[0, 0, 2] = -1.0, 1.0, 40.0
    settings = (mode, padding, aligned)
    check(aten.grid_sampler_2d.default, x, grid, *settings)
    check(aten.grid_sampler_2d.default, x[:, :, :1, :1].contiguous(), grid, *settings)
    grad = torch.randn(2, 3, 6, 7)
    check(aten.grid_sampler_2d_backward.default, grad, x, grid, *settings, [True, True])
    check(aten.grid_sampler_2d_backward.default, grad, x, grid, *settings, [False, True])
