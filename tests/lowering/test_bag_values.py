"""Bags of embeddings against PyTorch's CPU kernels: modes, padding, weights, empty bags, what the gradient gets."""

import pytest
import torch

from tests.lowering.checks import check, replay

aten = torch.ops.aten
SUM, MEAN, MAX = range(3)
INDICES = torch.tensor([1, 4, 4, 0, 2, 5, 1, 3])
OFFSETS = torch.tensor([0, 3, 3, 7])


def table(dtype=torch.float32):
    torch.manual_seed(0)
    return torch.randn(6, 5, dtype=dtype)


@pytest.mark.parametrize("padding", [-1, 4])
@pytest.mark.parametrize("mode", [SUM, MEAN, MAX])
@pytest.mark.parametrize("name", ["_embedding_bag", "_embedding_bag_forward_only"])
def test_forward(name, mode, padding):
    function = getattr(aten, name).default
    for offsets, last in ((OFFSETS, False), (torch.tensor([0, 3, 3, 8]), True)):
        check(function, table(), INDICES, offsets, False, mode, False, None, last, padding)
    check(function, table(torch.bfloat16), INDICES, OFFSETS, False, mode, False, None, False, padding)
    check(function, table(), INDICES.int(), OFFSETS.int(), False, mode, False, None, False, padding)


def test_weights():
    weights = torch.rand(8)
    for padding in (-1, 4):
        check(
            aten._embedding_bag.default, table(), INDICES, OFFSETS, False, SUM, False, weights, False, padding
        )


@pytest.mark.parametrize("padding", [-1, 4])
@pytest.mark.parametrize("mode", [SUM, MEAN, MAX])
def test_gradient(mode, padding):
    saved = aten._embedding_bag(table(), INDICES, OFFSETS, False, mode, False, None, False, padding)[1:]
    grad, weights = torch.randn(4, 5), torch.rand(8) if mode == SUM else None
    for w in {None, weights}:
        check(
            aten._embedding_bag_backward.default,
            grad, INDICES, OFFSETS, *saved, 6, False, mode, False, w, padding,
        )  # fmt: skip


def test_gradient_of_weights():
    saved = aten._embedding_bag(table(), INDICES, OFFSETS, False, SUM, False, torch.rand(8), False, 4)
    check(
        aten._embedding_bag_per_sample_weights_backward.default,
        torch.randn(4, 5), table(), INDICES, OFFSETS, saved[1], SUM, 4,
    )  # fmt: skip


def test_what_lies_outside():
    results = list(aten._embedding_bag(table(), INDICES, OFFSETS))
    for indices, offsets in ((INDICES + 1, OFFSETS), (INDICES - 1, OFFSETS), (INDICES, OFFSETS + 2)):
        replay(
            aten._embedding_bag.default,
            (table(), indices, offsets, False, SUM, False, None, False, -1), results, error=0,
        )  # fmt: skip
