"""Losses, embeddings and triangles against PyTorch's CPU kernels; indices that must be refused."""

import pytest
import torch

from tests.lowering.checks import check, replay

aten = torch.ops.aten
FLOATS = [torch.float32, torch.float64, torch.bfloat16]
PAIRS = ["mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy"]


def backward_extra(name):
    return {"smooth_l1_loss": (0.5,), "huber_loss": (0.5,)}.get(name, ())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("name", PAIRS)
def test_pointwise_losses(name, reduction, dtype):
    x, t = (torch.rand(4, 5).to(dtype) for _ in range(2))
    # The second argument after target is a weight in binary_cross_entropy.
    weight = (None,) if name == "binary_cross_entropy" else ()
    check(getattr(aten, name).default, x, t, *weight, reduction, *backward_extra(name))
    grad = torch.randn(4, 5).to(dtype) if reduction == 0 else torch.randn(()).to(dtype)
    backward = getattr(aten, name + "_backward").default
    check(backward, grad, x, t, *weight, reduction, *backward_extra(name))


def test_smooth_l1_without_a_band_is_l1():
    x, t = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 0.0, 5.0])
    check(aten.smooth_l1_loss.default, x, t, 0, 0.0)
    check(aten.smooth_l1_loss_backward.default, torch.ones(3), x, t, 0, 0.0)
    check(aten.l1_loss.default, x, t)


def test_logits_and_divergence():
    x, t = torch.tensor([-200.0, -1.0, 0.0, 3.0, 200.0]), torch.rand(5)
    logits = aten.binary_cross_entropy_with_logits.default
    check(logits, x, t)
    check(logits, x, t, torch.rand(5), torch.rand(5), 0)
    check(aten.kl_div.default, torch.randn(5), torch.tensor([0.0, 0.5, 0.1, 0.2, 1.0]))
    check(aten.kl_div.default, torch.randn(5), torch.randn(5), 2, log_target=True)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", [0, 1, 2])
@pytest.mark.parametrize("shape", [(4, 5), (5,), (2, 5, 3, 2)])
def test_nll_loss(shape, reduction, weighted):
    name = "nll_loss2d" if len(shape) == 4 else "nll_loss"
    x = torch.randn(shape)
    dims = shape[:1] + shape[2:] if len(shape) > 1 else ()
    target = torch.randint(0, 5, dims)
    if len(shape) > 1:
        target.view(-1)[1] = -100
    weight = torch.rand(5) if weighted else None
    check(getattr(aten, name + "_forward").default, x, target, weight, reduction, -100)
    loss, total = getattr(aten, name + "_forward").default(x, target, weight, reduction, -100)
    backward = getattr(aten, name + "_backward").default
    check(backward, torch.randn(loss.shape), x, target, weight, reduction, -100, total)


def test_a_batch_that_is_ignored_throughout_has_no_mean():
    check(aten.nll_loss_forward.default, torch.randn(2, 3), torch.tensor([1, 1]), None, 1, 1)


def test_bad_indices_are_reported():
    """PyTorch refuses these calls itself, so a stub stands for it while they are recorded."""
    x, table = torch.randn(2, 4), torch.randn(4, 2)
    for bad in (torch.tensor([0, 4]), torch.tensor([-1, 0])):
        args = (x, bad, None, 1, -100)
        replay(aten.nll_loss_forward.default, args, (x[0, 0], x[0, 0]), error=0)
        replay(aten.embedding.default, (table, bad), (torch.randn(2, 2),), error=0)
    probabilities = torch.tensor([0.5, 1.5])
    args = (probabilities, torch.ones(2), None, 0)
    replay(aten.binary_cross_entropy.default, args, (torch.randn(2),), error=0)


def test_embedding():
    table, index = torch.randn(7, 4), torch.tensor([[1, 6, 0], [2, 2, 5]])
    check(aten.embedding.default, table, index)
    check(aten.embedding.default, table.bfloat16(), index.int())
    check(aten.embedding.default, table, torch.tensor(3))
    check(aten.embedding.default, table, torch.zeros(0, 2, dtype=torch.int64))
    for padding in (-1, 2):
        check(aten.embedding_dense_backward.default, torch.randn(2, 3, 4), index, 7, padding, False)


@pytest.mark.parametrize("diagonal", [-3, -1, 0, 1, 5])
def test_triangles(diagonal):
    x = torch.randn(2, 4, 3)
    x[0, 0, 2] = float("nan")
    check(aten.tril.default, x, diagonal)
    check(aten.triu.default, x, diagonal)
    check(aten.tril.default, torch.ones(3, 3, dtype=torch.bool), diagonal)


def test_trace_and_cross():
    check(aten.trace.default, torch.randint(0, 9, (3, 4), dtype=torch.int32))
    check(aten.linalg_cross.default, torch.randn(2, 3), torch.randn(1, 3))
    check(aten.cross.default, torch.randn(3, 4), torch.randn(3, 4), 0)
