"""Distances, renorm and margin losses against PyTorch's CPU kernels: all norms, ties, zero distances, nothing."""

import math

import pytest
import torch

from tests.lowering.checks import check

aten = torch.ops.aten
NORMS = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf]


def points(*shape, seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    x = torch.randn(*shape, dtype=torch.float64)
    x[..., 1, :] = x[..., 0, :]  # a distance of zero
    return x.to(dtype)


@pytest.mark.parametrize("p", NORMS)
def test_cdist(p):
    x, y = points(2, 5, 3), points(2, 4, 3)
    y[:, 2] = x[:, 3]
    check(aten._cdist_forward.default, x, y, p, None)
    check(aten._cdist_forward.default, x[0], points(1, 4, 3, seed=1), p, 2)
    distance = torch.cdist(x, y, p=p)
    check(aten._cdist_backward.default, torch.randn_like(distance), x, y, p, distance)


def test_cdist_by_product_and_of_nothing():
    x, y = points(3, 30, 4, dtype=torch.float64), points(3, 6, 4, seed=1, dtype=torch.float64)
    check(aten._cdist_forward.default, x, y, 2.0, None)
    check(aten._cdist_forward.default, x[:, :5].contiguous(), y, 2.0, 1)
    check(aten._cdist_forward.default, torch.empty(0, 3), points(4, 3), 2.0, None)
    check(aten._cdist_forward.default, torch.empty(2, 0), torch.empty(4, 0), 2.0, None)


@pytest.mark.parametrize("p", NORMS)
def test_pdist(p):
    x = points(6, 3)
    check(aten._pdist_forward.default, x, p)
    distance = torch.pdist(x, p)
    check(aten._pdist_backward.default, torch.randn_like(distance), x, p, distance)


def test_pdist_of_few_and_many_points():
    for n in (0, 1, 2, 300):
        check(aten._pdist_forward.default, torch.randn(n, 2), 2.0)


@pytest.mark.parametrize("p", [0.5, 1.0, 2.0, math.inf])
def test_renorm(p):
    x = torch.randn(3, 4, 5)
    for dim in (0, 1, -1):
        check(aten.renorm.default, x, p, dim, 1.5)
    check(aten.renorm.default, x.bfloat16(), p, 0, 1.0)
    check(aten.embedding_renorm.default, torch.randn(6, 3), torch.tensor([[1, 4], [1, 0]]), 0.5, p)


@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("p", [1, 2])
def test_multi_margin_loss(p, reduction):
    x, target, weight = torch.randn(4, 5), torch.tensor([0, 4, 2, 2]), torch.rand(5)
    for w in (None, weight):
        check(aten.multi_margin_loss.default, x, target, p, 0.7, w, reduction)
        grad = torch.randn(4) if reduction == 0 else torch.randn(())
        check(aten.multi_margin_loss_backward.default, grad, x, target, p, 0.7, w, reduction)
    check(aten.multi_margin_loss.default, x[0], target[0], p, 1, None, reduction)


@pytest.mark.parametrize("reduction", [0, 1, 2])
def test_multilabel_margin_loss(reduction):
    x = torch.randn(3, 4)
    target = torch.tensor([[3, 0, -1, 1], [-1, 0, 1, 2], [0, 1, 2, 3]])
    check(aten.multilabel_margin_loss_forward.default, x, target, reduction)
    check(aten.multilabel_margin_loss_forward.default, x[0], target[0], reduction)
    _, is_target = aten.multilabel_margin_loss_forward(x, target, reduction)
    grad = torch.randn(3) if reduction == 0 else torch.randn(())
    check(aten.multilabel_margin_loss_backward.default, grad, x, target, reduction, is_target)
