"""torch.compile on the device: whole graphs through the same compiler and cache as adaptive eager.

python examples/03_compile.py
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 8)).to("neuron")
compiled = torch.compile(model, backend="neuron")
x = torch.randn(4, 32).to("neuron")

torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
compiled(x).sum().backward()
print("gradient of the first layer:", model[0].weight.grad.norm().item())
print("compiles:", torch.neuron.stats()["compiles"])
