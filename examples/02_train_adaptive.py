"""Training in adaptive eager mode: runs at once, and gets faster while it runs. Statistics say what happened.

python examples/02_train_adaptive.py [--steps 60]
"""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=60)
steps = parser.parse_args().steps

torch.neuron.set_execution_mode("adaptive")
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 1))
model.to("neuron")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

inputs = torch.randn(256, 16)
targets = inputs[:, :1] * inputs[:, 1:2]
inputs, targets = inputs.to("neuron"), targets.to("neuron")
for step in range(steps):
    loss = nn.functional.mse_loss(model(inputs), targets)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 20 == 0:
        print(f"step {step}: loss {loss.item():.4f}")  # a read: what is queued runs now
print(f"last loss: {loss.item():.4f}")

stats = torch.neuron.stats()
print("operators by tier:", stats["ops_by_tier"])
print(f"compiles: {stats['compiles']}, of which anyone waited {stats['compile_wait_seconds']:.2f} s")
