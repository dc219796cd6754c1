"""Histograms, modes, divisors and floats' representations against PyTorch's CPU kernels."""

import math

import pytest
import torch

from tests.lowering.checks import check

aten = torch.ops.aten
INF, NAN = math.inf, math.nan


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_histc(dtype):
    x = torch.tensor([0.0, 0.5, 1.0, 1.5, 3.0, 3.0, -1.0, 2.9], dtype=dtype)
    for low, high in ((0, 3), (-1, 1), (0, 0), (2, 2)):
        check(aten.histc.default, x, 5, low, high)
    check(aten.histc.default, torch.full((4,), 2.0, dtype=dtype), 3)
    check(aten.histc.default, torch.tensor([NAN, 1.0, INF], dtype=dtype), 3, 0, 2)
    check(aten.histc.default, torch.empty(0, dtype=dtype), 3)


@pytest.mark.parametrize("density", [False, True])
def test_histogram(density):
    x, weight = torch.randn(3, 20), torch.rand(3, 20)
    edges = torch.tensor([-1.0, -0.5, 0.0, 0.75, 2.0])
    x[0, :5] = edges
    check(aten.histogram.bins_tensor, x, edges, weight=weight, density=density)
    check(aten.histogram.bin_ct, x, 7, density=density)
    check(aten.histogram.bin_ct, x, 4, range=[-1.0, 1.0], weight=weight, density=density)
    check(aten.histogram.bin_ct, torch.full((3,), 2.0), 4)
    check(aten.histogram.bin_ct, torch.empty(0), 4)
    points = torch.randn(9, 2)
    bins = [edges, torch.tensor([-2.0, 0.0, 1.0])]
    check(aten._histogramdd_from_bin_tensors.default, points, bins, density=density)
    check(aten._histogramdd_from_bin_tensors.default, points, bins, weight=torch.rand(9), density=density)


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_mode(dim):
    check(aten.mode.default, torch.randint(0, 3, (5, 7)), dim)
    check(aten.mode.default, torch.randint(0, 3, (5, 7)).float(), dim, True)
    # Beside NaN the CPU's kernel sorts by an order that is none: only what is frequent without it is defined.
    check(aten.mode.default, torch.tensor([[NAN, 1.0, 1.0], [NAN, 2.0, 2.0]]), 1)
    check(aten.mode.default, torch.tensor([[True, False, True]]), dim)


def test_mode_of_one():
    check(aten.mode.default, torch.tensor(3.0), 0)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.int64])
def test_common_divisors(dtype):
    x = torch.tensor([0, 0, 12, -12, 7, 100, 36], dtype=torch.int64).to(dtype)
    y = torch.tensor([0, 5, 18, 18, 0, 75, -24], dtype=torch.int64).to(dtype)
    check(aten.gcd.default, x, y)
    check(aten.lcm.default, x[:5], y[:5])


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_next_float(dtype):
    x = torch.tensor([0.0, -0.0, 1.0, -1.0, 1.0, INF, NAN, 3.0, 1e-38, -2.0], dtype=dtype)
    y = torch.tensor([1.0, -1.0, 2.0, 2.0, 1.0, 0.0, 1.0, -INF, 0.0, NAN], dtype=dtype)
    check(aten.nextafter.default, x, y)
    check(aten.nextafter.default, torch.tensor(0.0, dtype=dtype), y)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_mantissa_and_exponent(dtype):
    x = torch.tensor([0.0, -0.0, 1.0, -1.5, 1e30, 1e-30, 1e-40, -3e-39, 0.5, 0.75], dtype=dtype)
    check(aten.frexp.Tensor, x)
    check(aten.frexp.Tensor, torch.empty(0, dtype=dtype))


def test_nonzero_of_a_given_number():
    x = torch.tensor([[0.0, 2.0, NAN], [0.0, 0.0, -1.0]])
    for size in (0, 2, 3, 5):
        check(aten.nonzero_static.default, x, size=size)
    check(aten.nonzero_static.default, x > 1, size=3, fill_value=7)
    check(aten.nonzero_static.default, torch.tensor(1), size=2)
    check(aten.nonzero_static.default, torch.empty(0, 2), size=2, fill_value=9)
