"""Training a dozen steps gives CPU's losses and CPU's parameters, for every kind of model and optimizer."""

import copy
import functools

import pytest
import torch

from examples.models import build
from tests.python.support import Mode, target, tier

STEPS = 12
MODELS = ["gpt", "conv", "lstm", "unet", "llama", "moe", "moe_dynamic", "convnext"]
OPTIMIZERS = {
    "adamw": lambda p: torch.optim.AdamW(p, lr=1e-3),
    "adamw_single": lambda p: torch.optim.AdamW(p, lr=1e-3, foreach=False),
    "adamw_fused": lambda p: torch.optim.AdamW(p, lr=1e-3, fused=True),
    "adamw_decay": lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.1),
    "sgd_momentum": lambda p: torch.optim.SGD(p, lr=1e-2, momentum=0.9),
}
# One model with every optimizer and every model with one optimizer; --full runs the product.
SHORT_LIST = {(m, "adamw") for m in MODELS} | {("gpt", o) for o in OPTIMIZERS} | {("conv", "sgd_momentum")}
SMOKE = {("gpt", "adamw"), ("conv", "sgd_momentum"), ("llama", "adamw")}


def train(case, device, optimizer, wrap=lambda f: f, autocast=None, steps=STEPS):
    """Returns the losses and the final parameters and buffers, on the CPU."""
    model = copy.deepcopy(case.module).to(device)
    make_optimizer = OPTIMIZERS[optimizer](model.parameters())
    run = wrap(model)
    losses = []
    for step in range(steps):
        batch = [t.to(device) for t in case.batch(step)]
        with torch.autocast(device, dtype=autocast, enabled=autocast is not None):
            loss = run(*batch)
        loss.backward()
        make_optimizer.step()
        make_optimizer.zero_grad()
        losses.append(loss.item())
    return losses, {name: value.detach().cpu() for name, value in model.state_dict().items()}


@functools.cache
def on_cpu(name, optimizer, autocast=None):
    return train(build(name), "cpu", optimizer, autocast=autocast)


def relative_change_error(actual, expected, initial):
    """Distance of all floating-point state to CPU's, as a share of how far training moved it."""
    names = [n for n, value in expected.items() if value.is_floating_point()]
    error = torch.stack([(actual[n].double() - expected[n].double()).norm() for n in names]).norm()
    change = torch.stack([(expected[n].double() - initial[n].double()).norm() for n in names]).norm()
    assert change > 0, "training on CPU changed nothing"
    return (error / change).item()


def check(name, optimizer, device, mode, autocast=None, loss_bar=1e-4, change_bar=1e-3):
    case = build(name)
    expected_losses, expected = on_cpu(name, optimizer, autocast)
    losses, state = train(case, device, optimizer, mode.wrap, autocast)
    worst = max(abs(a - e) / abs(e) for a, e in zip(losses, expected_losses, strict=True))
    assert worst <= loss_bar, f"loss differs by {worst:.2e}: {losses} on {device}, {expected_losses} on cpu"
    assert state.keys() == expected.keys()
    error = relative_change_error(state, expected, case.module.state_dict())
    assert error <= change_bar, f"parameters differ by {error:.2e} of their change"
    for key, value in expected.items():
        if not value.is_floating_point():  # counters, such as batch norm's
            assert torch.equal(state[key], value), key


def marks(name, optimizer):
    result = []
    if (name, optimizer) in SMOKE:
        result.append(pytest.mark.smoke)
    if (name, optimizer) not in SHORT_LIST:
        result.append(pytest.mark.full)
    return result


@pytest.mark.parametrize(
    ("name", "optimizer"),
    [pytest.param(n, o, marks=marks(n, o), id=f"{n}-{o}") for n in MODELS for o in OPTIMIZERS],
)
def test_training_matches_cpu(name, optimizer, device, mode):
    if mode.compiled and name == "moe_dynamic":
        pytest.skip("shapes depend on data, and compiled mode takes static shapes: moe covers it")
    if mode.compiled and optimizer not in ("adamw", "sgd_momentum"):
        pytest.skip("the compiled part is forward and backward: the optimizer runs as in eager mode")
    check(name, optimizer, device, mode)


@pytest.mark.parametrize("name", ["gpt", "llama"])
def test_bf16_autocast_training_is_close_to_cpu(name, device, mode):
    # Rounding the parameters differently by 1e-6 moves them by 2e-2 of their change here: the bar is above that.
    check(name, "adamw", device, mode, torch.bfloat16, loss_bar=2e-2, change_bar=5e-2)


def test_the_comparison_sees_a_small_error(device):
    """The bars above can fail: a learning rate that is 1 % off does not pass."""
    if device == "neuron" and tier() != "auto":
        pytest.skip("says nothing about a tier: once is enough")
    case = build("gpt")
    off = copy.deepcopy(case)
    OPTIMIZERS["adamw_off"] = lambda p: torch.optim.AdamW(p, lr=1.01e-3)
    try:
        _, state = train(off, "cpu", "adamw_off")
    finally:
        del OPTIMIZERS["adamw_off"]
    error = relative_change_error(state, on_cpu("gpt", "adamw")[1], case.module.state_dict())
    assert error > 1e-3


@pytest.mark.smoke
def test_training_uses_the_mode_that_was_asked_for(device):
    """Counters say which path ran: nothing is fused in eager mode, snippets are in adaptive mode."""
    if device != "neuron":
        pytest.skip("counters are the device's own")
    for name in ("eager", "adaptive"):
        torch.neuron.synchronize()
        torch.neuron.reset_stats()
        mode = Mode(name, device)
        with mode.active():
            train(build("gpt"), device, "adamw")
            torch.neuron.synchronize()
        stats = torch.neuron.stats()
        assert stats["ops_captured"] > 100, stats
        fused = sum(n for key, n in stats["ops_by_tier"].items() if key not in (0, "host"))
        if (
            name == "eager" and target() == "opaque"
        ):  # single-operator snippets: there are no kernels of its own
            assert stats["snippets_launched"] == fused > 100, stats
        elif name == "eager" and tier() != "compiled":
            assert fused == 0, stats
        if name == "adaptive" and tier() == "compiled":
            total = sum(stats["ops_by_tier"].values())
            assert fused >= 0.8 * total, stats
