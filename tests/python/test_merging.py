"""Training until neighbouring snippets were merged and run as one: at every step the loss of CPU.

A process of its own, for the planner's knobs are read once: units of 16 operators, and no waiting until a merged
snippet has earned its compile.
"""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 240

PROGRAM = """
import copy, json, sys, time
import torch
from examples.models import build

name, least_tier = sys.argv[1], int(sys.argv[2])
case = build(name, "test")
models = {"cpu": case.module, "neuron": copy.deepcopy(case.module).to("neuron")}
optimizers = {d: torch.optim.SGD(m.parameters(), lr=0.01, momentum=0.9) for d, m in models.items()}
torch.neuron.set_execution_mode("adaptive")
losses, merged_at = [], None
begin = time.monotonic()
while time.monotonic() - begin < float(sys.argv[3]):
    row = []
    for device, model in models.items():
        loss = model(*(t.to(device) for t in case.batch(len(losses))))
        loss.backward()
        optimizers[device].step()
        optimizers[device].zero_grad()
        row.append(loss.item())
    losses.append(row)
    tiers = torch.neuron.stats()["ops_by_tier"]
    merged = sum(n for tier, n in tiers.items() if tier != "host" and tier >= least_tier)
    if merged and merged_at is None:
        merged_at = len(losses)
    if merged_at is not None and len(losses) >= merged_at + 5:
        break
worst = max(
    ((a.detach() - b.detach().cpu()).abs().max() / a.detach().abs().max().clamp_min(1e-3)).item()
    for a, b in zip(models["cpu"].parameters(), models["neuron"].parameters(), strict=True)
)
print(json.dumps({"losses": losses, "merged_at": merged_at, "worst": worst, "tiers": tiers}))
"""


@pytest.mark.parametrize("model", ["gpt", "llama", "unet"])
def test_values_of_a_merged_training_step(model):
    environment = {
        **os.environ,
        "DENDRITE_SNIPPET_OPS": "16",
        "DENDRITE_MERGE_COST": "0",
        "DENDRITE_TIER": "auto",
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, model, "2", str(SECONDS)],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS + 120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["merged_at"] is not None, f"nothing was merged in {SECONDS} s: {result['tiers']}"
    for step, (expected, actual) in enumerate(result["losses"]):
        assert abs(actual - expected) <= 1e-3 * abs(expected), f"step {step}: {actual} and not {expected}"
    assert result["worst"] < 2e-2
