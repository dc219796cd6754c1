"""Random numbers: seeds, states, forks, and the same numbers wherever they are drawn."""

import pytest
import torch
from torch import nn

from tests.python.support import move

DRAWS = {
    "rand": lambda d: torch.rand(17, device=d),
    "randn": lambda d: torch.randn(17, device=d),
    "randint": lambda d: torch.randint(0, 1000, (17,), device=d),
    "randperm": lambda d: torch.randperm(17, device=d),
    "bernoulli": lambda d: torch.full((17,), 0.5, device=d).bernoulli(),
    "multinomial": lambda d: torch.ones(17, device=d).multinomial(9),
    "dropout": lambda d: nn.functional.dropout(torch.ones(17, device=d), 0.5),
    "exponential": lambda d: torch.empty(17, device=d).exponential_(),
    "normal of tensors": lambda d: torch.normal(torch.zeros(17, device=d), torch.ones(17, device=d)),
    "rrelu": lambda d: nn.functional.rrelu(-torch.ones(17, device=d), training=True),
}


@pytest.mark.smoke
@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_brings_the_same_numbers_back_and_they_move_on(name, device):
    draw = DRAWS[name]
    torch.manual_seed(42)
    first, second = draw(device).cpu(), draw(device).cpu()
    torch.manual_seed(42)
    assert torch.equal(draw(device).cpu(), first)
    assert torch.equal(draw(device).cpu(), second)
    assert not torch.equal(first, second)
    torch.manual_seed(43)
    assert not torch.equal(draw(device).cpu(), first)


def test_the_state_is_saved_and_restored(device):
    if device != "neuron":
        pytest.skip("the device's module")
    torch.neuron.manual_seed(3)
    assert torch.neuron.initial_seed() == 3
    torch.rand(5, device=device)
    state = torch.neuron.get_rng_state()
    assert state.dtype == torch.uint8
    assert state.device.type == "cpu"
    a = torch.rand(5, device=device).cpu()
    torch.neuron.set_rng_state(state)
    assert torch.equal(torch.rand(5, device=device).cpu(), a)
    with pytest.raises((RuntimeError, TypeError)):
        torch.neuron.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_fork_rng_leaves_the_state_alone(device):
    if device != "neuron":
        pytest.skip("the device's module")
    torch.manual_seed(9)
    expected = torch.rand(5, device=device).cpu()
    torch.manual_seed(9)
    with torch.random.fork_rng(device_type="neuron"):
        torch.rand(100, device=device)
        torch.manual_seed(1)
    assert torch.equal(torch.rand(5, device=device).cpu(), expected)


@pytest.mark.smoke
def test_dropout_masks_are_the_same_forward_and_backward(device):
    x = torch.ones(64, 64, device=device, requires_grad=True)
    y = nn.functional.dropout(x, 0.25)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())
    kept = (y != 0).float().mean().item()
    assert abs(kept - 0.75) < 0.05
    assert nn.functional.dropout(x, 0.25, training=False).sum().item() == 64 * 64


def test_numbers_do_not_depend_on_layout_or_on_what_else_is_queued(device):
    torch.manual_seed(5)
    plain = torch.empty(6, 8, device=device).uniform_().cpu()
    torch.manual_seed(5)
    busy = torch.ones(64, 64, device=device) @ torch.ones(64, 64, device=device)
    strided = torch.zeros(8, 6, device=device).t().uniform_()
    assert torch.equal(strided.cpu(), plain)
    assert busy.sum().item() == 64**3


def test_moments(device):
    torch.manual_seed(0)
    n = 1 << 16
    normal = torch.randn(n, device=device)
    assert abs(normal.mean().item()) < 0.02
    assert abs(normal.std().item() - 1) < 0.02
    uniform = torch.rand(n, device=device)
    assert uniform.min().item() >= 0
    assert uniform.max().item() < 1
    assert abs(uniform.mean().item() - 0.5) < 0.01
    permutation = torch.randperm(1000, device=device)
    assert torch.equal(permutation.sort().values.cpu(), torch.arange(1000))


def test_a_foreign_generator_is_refused(device):
    if device == "cpu":
        pytest.skip("needs two kinds of generator")
    with pytest.raises(RuntimeError, match=r"[Ee]xpected a .*device type for generator"):
        torch.empty(3, device=device).uniform_(generator=torch.Generator())
    assert torch.Generator(device=device).device.type == device


def test_layers_start_from_the_seed(device):
    def make():
        torch.manual_seed(7)
        return nn.Linear(5, 4, device=device).weight.detach().cpu()

    assert torch.equal(make(), make())
    assert move(torch.ones(2), device).device.type == device
