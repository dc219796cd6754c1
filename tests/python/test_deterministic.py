"""Adaptive eager under torch.use_deterministic_algorithms: what runs how is a function of the program, so two runs are
equal bit by bit, whatever the machine's load and the cache hold."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

PROGRAM = """
import hashlib, json, sys, time
import torch
from examples.models import build

torch.use_deterministic_algorithms(True, warn_only=True)
torch.neuron.set_execution_mode("adaptive")
case = build(sys.argv[1], "test")
model = case.module.to("neuron")
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
losses = []
for step in range(12):
    loss = model(*(t.to("neuron") for t in case.batch(step)))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    losses.append(loss.item().hex())
    time.sleep(float(sys.argv[2]))  # silence, in which an idle stream would begin by itself
digest = hashlib.sha256(b"".join(p.detach().cpu().numpy().tobytes() for p in model.parameters())).hexdigest()
stats = torch.neuron.stats()
print(json.dumps({"losses": losses, "digest": digest, "tiers": stats["ops_by_tier"], "compiles": stats["compiles"]}))
"""


def run(model, cache, pause=0.0):
    environment = {
        **os.environ,
        "DENDRITE_TIER": "auto",
        "DENDRITE_CACHE_DIR": str(cache),
        "PYTHONPATH": str(ROOT),
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, model, str(pause)],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("model", ["gpt", "unet"])
def test_two_runs_are_equal_bit_by_bit(model, tmp_path):
    cold = run(model, tmp_path)
    assert cold["compiles"] > 0
    burner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        warm = run(model, tmp_path, pause=0.02)
    finally:
        burner.kill()
        burner.wait()
    assert warm["compiles"] == 0, "the cache is warm"
    assert warm["losses"] == cold["losses"]
    assert warm["digest"] == cold["digest"]
    assert warm["tiers"] == cold["tiers"]
    compiled = sum(n for tier, n in cold["tiers"].items() if tier not in ("0", "host"))
    assert compiled > sum(cold["tiers"].values()) / 2
