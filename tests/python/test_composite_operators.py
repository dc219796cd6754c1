"""Operators that the device composes out of others: answers, errors, and that nothing of them runs on the host."""

import pytest
import torch

from tests.python.support import move


@pytest.fixture
def fallbacks():
    torch.neuron.synchronize()
    torch.neuron.reset_stats()

    def seen():
        torch.neuron.synchronize()
        return torch.neuron.stats()["fallback_ops"]

    return seen


def test_equal(fallbacks):
    x = torch.arange(6.0, device="neuron").view(2, 3)
    assert torch.equal(x, x.clone())
    assert not torch.equal(x, x + 1)
    assert not torch.equal(x, x[:1])
    assert torch.equal(x[:0], x[:0])
    assert torch.equal(x, x.to(torch.float64))
    nan = torch.full((1,), float("nan"), device="neuron")
    assert not torch.equal(nan, nan)
    assert not fallbacks()
    with pytest.raises(RuntimeError, match="on different devices"):
        torch.equal(x, x.cpu())


def test_cholesky_that_fails_says_where(fallbacks):
    a = torch.eye(3, device="neuron")
    assert torch.equal(torch.cholesky(4 * a), 2 * a)
    a[2, 2] = -1
    with pytest.raises(RuntimeError, match="leading minor of order 3 is not positive-definite"):
        torch.cholesky(a)
    assert not fallbacks()


def test_strided_copies_and_triangles(fallbacks):
    host = torch.randn(4, 5)
    x = move(host, "neuron")
    copy = torch.as_strided_copy(x, (2, 3), (5, 2), 1)
    scattered = torch.as_strided_scatter(x, copy, (2, 3), (1, 5), 0)
    assert torch.equal(copy.cpu(), torch.as_strided_copy(host, (2, 3), (5, 2), 1))
    assert torch.equal(scattered.cpu(), torch.as_strided_scatter(host, copy.cpu(), (2, 3), (1, 5), 0))
    for make in (torch.tril_indices, torch.triu_indices):
        assert torch.equal(make(3, 4, 1, device="neuron").cpu(), make(3, 4, 1))
    assert not fallbacks()


def test_running_statistics_with_declared_update(fallbacks):
    x, weight, bias = torch.randn(4, 3, 5), torch.rand(3), torch.rand(3)
    expected = [torch.zeros(3), torch.ones(3)]
    running = [move(t, "neuron") for t in expected]
    want = torch.ops.aten._batch_norm_with_update(x, weight, bias, *expected, 0.1, 1e-5)
    moved = [move(t, "neuron") for t in (x, weight, bias)]
    got = torch.ops.aten._batch_norm_with_update(*moved, *running, 0.1, 1e-5)
    torch.testing.assert_close(got[0].cpu(), want[0])
    for a, e in zip(running, expected, strict=True):
        torch.testing.assert_close(a.cpu(), e)
    assert not fallbacks()
