"""Unpooling, fractional and adaptive pooling, pooling of integers, antialiasing, grid sampling in three dimensions."""

import itertools

import pytest
import torch

from tests.lowering.checks import check, replay

aten = torch.ops.aten


def test_max_unpool():
    x = torch.randn(2, 3, 6, 8)
    values, indices = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    check(aten.max_unpool2d.default, values, indices, [6, 8])
    check(aten.max_unpool2d.default, values[0], indices[0], [6, 8])
    volume = torch.randn(2, 2, 4, 4, 6)
    values, indices = torch.nn.functional.max_pool3d(volume, 2, return_indices=True)
    check(aten.max_unpool3d.default, values, indices, [4, 4, 6], [2, 2, 2], [0, 0, 0])
    replay(
        aten.max_unpool2d.default,
        (torch.ones(1, 1, 1), torch.tensor([[[9]]]), [3, 3]),
        [torch.ones(1, 3, 3)],
        0,
    )


@pytest.mark.parametrize("batch", [(2, 3), (3,)])
def test_fractional_max_pool(batch):
    torch.manual_seed(0)
    x, samples = torch.randn(*batch, 9, 11), torch.rand(1 if len(batch) == 1 else 2, 3, 2)
    values, indices = aten.fractional_max_pool2d(x, [2, 3], [4, 5], samples)
    check(aten.fractional_max_pool2d.default, x, [2, 3], [4, 5], samples)
    check(aten.fractional_max_pool2d.default, x, [2, 3], [1, 1], samples)
    check(aten.fractional_max_pool2d_backward.default, torch.randn_like(values), x, [2, 3], [4, 5], indices)
    x, samples = torch.randn(*batch, 6, 7, 8), torch.rand(1 if len(batch) == 1 else 2, 3, 3)
    values, indices = aten.fractional_max_pool3d(x, [2, 2, 3], [3, 4, 2], samples)
    check(aten.fractional_max_pool3d.default, x, [2, 2, 3], [3, 4, 2], samples)
    check(
        aten.fractional_max_pool3d_backward.default,
        torch.randn_like(values),
        x,
        [2, 2, 3],
        [3, 4, 2],
        indices,
    )


@pytest.mark.parametrize("out", [(2, 2, 2), (3, 2, 5), (1, 1, 1), (4, 7, 5)])
def test_adaptive_max_pool(out):
    x = torch.randn(2, 3, 4, 6, 5)
    x[0, 0, 0, 0, 0] = float("nan")
    values, indices = aten.adaptive_max_pool3d(x, list(out))
    check(aten.adaptive_max_pool3d.default, x, list(out))
    check(aten.adaptive_max_pool3d_backward.default, torch.randn_like(values), x, indices)
    check(aten.adaptive_max_pool2d.default, x[:, :, 0], list(out[1:]))


def test_pooling_and_convolution_of_integers():
    x = torch.randint(-50, 50, (2, 4, 7, 7))
    check(aten.avg_pool2d.default, x, [3, 3], [2, 2], [1, 1])
    check(aten.avg_pool2d.default, x, [3, 3], [2, 2], [1, 1], True, False)
    check(aten.avg_pool2d.default, x, [2, 2], [2, 2], [0, 0], False, True, 3)
    w = torch.randint(-5, 5, (4, 2, 3, 3))
    check(aten.convolution.default, x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 2)
    check(aten.convolution.default, x, w, torch.randint(0, 9, (2,)), [2, 1], [0, 1], [1, 2], True, [0, 0], 1)


@pytest.mark.parametrize("kind", ["bilinear", "bicubic", "lanczos"])
@pytest.mark.parametrize("size", [(3, 4), (12, 20), (8, 10)])
def test_antialiased_resampling(kind, size):
    x = torch.randn(2, 3, 8, 10)
    forward = getattr(aten, f"_upsample_{kind}2d_aa").default
    backward = getattr(aten, f"_upsample_{kind}2d_aa_backward").default
    for align in (False, True) if kind != "lanczos" else (False,):
        check(forward, x, list(size), align)
        check(backward, torch.randn(2, 3, *size), list(size), [2, 3, 8, 10], align)
    check(forward, x, list(size), False, size[0] / 8 * 1.01, size[1] / 10 * 1.01)


@pytest.mark.parametrize(
    ("mode", "padding", "aligned"), list(itertools.product([0, 1], [0, 1, 2], [False, True]))
)
def test_volumes_at_points(mode, padding, aligned):
    torch.manual_seed(0)
    x, grid = torch.randn(2, 3, 3, 4, 5), torch.rand(2, 2, 3, 2, 3) * 2.6 - 1.3
    settings = (mode, padding, aligned)
    check(aten.grid_sampler_3d.default, x, grid, *settings)
    grad = torch.randn(2, 3, 2, 3, 2)
    check(aten.grid_sampler_3d_backward.default, grad, x, grid, *settings, [True, True])


@pytest.mark.parametrize(("padding", "aligned"), list(itertools.product([0, 1, 2], [False, True])))
def test_cubic_pictures_at_points(padding, aligned):
    torch.manual_seed(0)
    x, grid = torch.randn(2, 3, 5, 6), torch.rand(2, 3, 4, 2) * 2.8 - 1.4
    settings = (2, padding, aligned)
    check(aten.grid_sampler_2d.default, x, grid, *settings)
    check(aten.grid_sampler_2d_backward.default, torch.randn(2, 3, 3, 4), x, grid, *settings, [True, True])
