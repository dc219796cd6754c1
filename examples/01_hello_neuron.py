"""Tensors on the device: change the device's name, nothing else.

python examples/01_hello_neuron.py
"""

import torch

x = torch.arange(6.0, device="neuron").view(2, 3)
y = (x @ x.T).softmax(-1)
print(y)

w = torch.ones(3, 2, device="neuron", requires_grad=True)
(x @ w).sum().backward()
print(w.grad)

accelerator = torch.accelerator.current_accelerator()
print("torch.accelerator says:", accelerator)
print("memory in use:", torch.neuron.memory_allocated(), "bytes")
