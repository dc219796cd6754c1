"""How much of training runs in compiled code, where compiling is waited for (`DENDRITE_TIER=compiled`): most operators
of every example model, with every kind of optimizer. Reads by the host (`.item()`) count against the share."""

import json
import os
import subprocess
import sys

import pytest

from tests.python.test_training import MODELS, OPTIMIZERS

BARS = {"embedded": 0.8, "opaque": 0.95}
CASES = [(m, "adamw") for m in MODELS] + [("gpt", o) for o in OPTIMIZERS if o != "adamw"]
# Its shapes depend on data, and compiled mode takes static shapes.
DATA_DEPENDENT = {"moe_dynamic"}
STEPS = 3


def measure(mode):
    """Prints one line of JSON: {"model-optimizer": [share, operators that fell back]}."""
    import torch

    from examples.models import build

    shares = {}
    for name, optimizer in CASES:
        if mode == "compiled" and name in DATA_DEPENDENT:
            continue
        case = build(name)
        model = case.module.to("neuron")
        step = OPTIMIZERS[optimizer](model.parameters())
        run = torch.compile(model, backend="neuron", dynamic=False) if mode == "compiled" else model
        torch.neuron.synchronize()
        torch.neuron.reset_stats()
        with torch.neuron.execution_mode("adaptive" if mode == "adaptive" else "eager"):
            for i in range(STEPS):
                loss = run(*[t.to("neuron") for t in case.batch(i)])
                loss.backward()
                step.step()
                step.zero_grad()
                loss.item()
        torch.neuron.synchronize()
        torch._dynamo.reset()
        stats = torch.neuron.stats()
        tiers = stats["ops_by_tier"]
        low = tiers.get(0, 0) + tiers.get("host", 0)
        shares[f"{name}-{optimizer}"] = [1 - low / sum(tiers.values()), stats["fallback_ops"]]
    print(json.dumps(shares))


@pytest.mark.parametrize("how", ["eager", "adaptive", "compiled"])
@pytest.mark.parametrize("target", BARS)
def test_most_operators_run_compiled(target, how, device):
    if device != "neuron":
        pytest.skip("counters are the device's own")
    if how == "eager" and target == "embedded":
        pytest.skip("adaptive mode lowers the same operators: once is enough")
    environment = {**os.environ, "DENDRITE_TARGET": target, "DENDRITE_TIER": "compiled"}
    environment.pop("DENDRITE_OPAQUE", None)
    done = subprocess.run(
        [sys.executable, "-m", "tests.python.test_tier_share", how],
        env=environment, capture_output=True, text=True, timeout=900, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    shares = json.loads(done.stdout.splitlines()[-1])
    assert len(shares) >= len(CASES) - len(DATA_DEPENDENT)
    low = {k: v for k, v in shares.items() if v[0] < BARS[target]}
    assert not low


if __name__ == "__main__":
    measure(sys.argv[1])
