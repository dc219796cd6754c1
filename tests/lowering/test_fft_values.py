"""Fourier transforms against PyTorch's: all scales, dimensions in any order, more than three of them, halves."""

import pytest
import torch

from tests.lowering.checks import check

aten = torch.ops.aten


@pytest.mark.parametrize("forward", [True, False])
@pytest.mark.parametrize("dims", [[0], [2], [1, 0], [0, 1, 2], [3, 1, 0, 2]])
@pytest.mark.parametrize("scale", [0, 1, 2])
def test_complex(scale, dims, forward):
    x = torch.randn(3, 4, 5, 2, dtype=torch.complex64)
    check(aten._fft_c2c.default, x, dims, scale, forward)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("dims", [[2], [0], [1, 2], [2, 0], [0, 1, 2]])
def test_real(dims, dtype):
    x = torch.randn(4, 5, 6, dtype=dtype)
    for scale in (0, 1, 2):
        check(aten._fft_r2c.default, x, dims, scale, True)
    check(aten._fft_r2c.default, x, dims, 0, False)
    spectrum = torch.fft.rfftn(x, dim=dims)
    for scale in (0, 1, 2):
        check(aten._fft_c2r.default, spectrum, dims, scale, x.shape[dims[-1]])


def test_other_lengths_and_no_dimension():
    x = torch.randn(3, 4, dtype=torch.complex128)
    check(aten._fft_c2r.default, x, [1], 2, 7)
    check(aten._fft_c2c.default, x, [], 0, True)


def test_conjugated_and_strided_views():
    x = torch.randn(4, 6, dtype=torch.complex64)
    check(aten._fft_c2c.default, x.conj(), [1], 0, False)
    check(aten._fft_c2c.default, x.t(), [0], 0, True)
    check(aten._fft_r2c.default, torch.randn(4, 12)[:, ::2], [1], 0, True)
