"""Sparse tensors: made, moved, computed with (on the host, counted), as gradients."""

import io

import pytest
import torch
from torch import nn

from tests.python.support import target, tier

LAYOUTS = [torch.sparse_coo, torch.sparse_csr, torch.sparse_csc]


def dense():
    x = torch.arange(12.0).view(3, 4)
    return x.masked_fill(x % 3 == 1, 0)


def same(actual, expected):
    assert actual.layout == expected.layout
    torch.testing.assert_close(actual.cpu(), expected)  # dtypes and shapes, too


def test_made_of_parts_that_stay_where_they_are(device):
    indices = torch.tensor([[0, 2, 0], [1, 3, 1]])
    values = torch.tensor([1.0, 2.0, 3.0])
    x = torch.sparse_coo_tensor(indices.to(device), values.to(device), (3, 4))
    assert (x.is_coalesced(), x._nnz(), x._values().device.type) == (False, 3, device)
    expected = torch.sparse_coo_tensor(indices, values, (3, 4))
    same(x, expected)
    same(x.coalesce(), expected.coalesce())
    same(x.to_dense(), expected.to_dense())
    if device == "neuron":  # neither making nor taking apart is computing
        torch.neuron.reset_stats()
        y = torch.sparse_coo_tensor(x._indices(), x._values() * 2, x.size())
        assert y._values().tolist() == [2, 4, 6]
        assert not torch.neuron.stats()["fallback_ops"]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_moved_there_and_back(device, layout):
    x = dense().to_sparse(layout=layout)
    assert x.to(device).device.type == device
    same(x.to(device), x)
    same(x.to(device).clone(), x)
    same(x.to(device).to(torch.float64), x.to(torch.float64))
    same(dense().to(device).to_sparse(layout=layout), x)
    same(x.to(device).to_dense(), x.to_dense())
    file = io.BytesIO()
    torch.save(x.to(device), file)
    file.seek(0)
    same(torch.load(file), x)


def test_empty(device):
    x = torch.sparse_coo_tensor(size=(2, 3), device=device)
    assert x._nnz() == 0
    same(x, torch.sparse_coo_tensor(size=(2, 3)))
    same(x + x, torch.sparse_coo_tensor(size=(2, 3)))
    same(torch.zeros(2, 3).to_sparse().to(device), torch.zeros(2, 3).to_sparse())


@pytest.mark.parametrize("layout", LAYOUTS[:2], ids=str)
def test_computed_with(device, layout):
    x, y = dense().to_sparse(layout=layout), torch.arange(8.0).view(4, 2)
    z = torch.ones(3, 4).to(device)
    same(x.to(device) @ y.to(device), x @ y)
    same(z.add_(x.to(device)), torch.ones(3, 4).add_(x))
    same(x.to(device) + x.to(device), x + x)
    same(torch.neg(x.to(device)), torch.neg(x))
    same(torch.sum(x.to(device)), torch.sum(x))


def test_written_in_place(device):
    x = dense().to_sparse()
    y = x.to(device)
    y.mul_(3)
    same(y, x * 3)
    y.add_(x.to(device))
    same(y, x * 4)
    y.zero_()
    assert y._nnz() == 0


def test_mask(device):
    x, mask = torch.arange(12.0).view(3, 4), dense().to_sparse().coalesce()
    same(x.to(device).sparse_mask(mask.to(device)), x.sparse_mask(mask))


def test_host_work_is_counted(device):
    if device != "neuron" or tier() == "0":
        pytest.skip("tier 0 of the embedded target is PyTorch's own kernels")
    x = dense().to_sparse().to(device)
    torch.neuron.synchronize()
    torch.neuron.reset_stats()
    x.to_dense().cpu()
    counted = torch.neuron.stats()["fallback_ops"]
    assert bool(counted) == (target() == "opaque" or tier() == "compiled"), counted


def test_kernels_know_that_a_derivative_is_wanted(device):
    """Of a maximum, CPU's kernel keeps which elements they were only then."""

    def gradients(where):
        x = dense().to_sparse_csr().to(where).requires_grad_()
        y = torch.arange(8.0).view(4, 2).to(where).requires_grad_()
        torch.sparse.mm(x, y, "amax").sum().backward()
        return x.grad.cpu().to_dense(), y.grad.cpu()

    torch.testing.assert_close(gradients(device), gradients("cpu"))


@pytest.mark.parametrize("optimizer", [torch.optim.SparseAdam, torch.optim.SGD, torch.optim.Adagrad])
def test_gradients_of_an_embedding(device, mode, optimizer):
    def train(where):
        torch.manual_seed(0)
        table = nn.Embedding(10, 4, sparse=True).to(where)
        opt = optimizer(table.parameters(), lr=0.1)
        for step in range(3):
            opt.zero_grad()
            out = table(torch.tensor([1, 2, 2, 7 + step % 2], device=where))
            (out * out).sum().backward()
            assert table.weight.grad.layout == torch.sparse_coo
            assert table.weight.grad.device.type == where
            opt.step()
        return table.weight.detach().cpu()

    torch.testing.assert_close(train(device), train("cpu"))
