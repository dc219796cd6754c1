"""A training step of a shared model on one device, ready to be timed."""

import contextlib
import copy

import torch

from benchmarks.measure import timed
from examples.models import build

OPTIMIZERS = {
    "default": {},
    "foreach": {"foreach": True},
    "fused": {"fused": True},
}


def synchronize(device: str) -> None:
    if device != "cpu":
        torch.accelerator.synchronize()


def execution_mode(device: str, mode: str):
    if device == "cpu":
        return contextlib.nullcontext()
    return torch.neuron.execution_mode("adaptive" if mode == "adaptive" else "eager")


class Trainer:
    """Calling it is one step, synchronised before and after."""

    def __init__(self, model: str, size: str, device: str, optimizer: str = "default", mode: str = "eager"):
        case = build(model, size)
        self.device, self.mode = device, mode
        self.model = copy.deepcopy(case.module).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3, **OPTIMIZERS[optimizer])
        self.batches = [case.batch(i) for i in range(4)]
        self.run = torch.compile(self.model, backend="neuron") if mode == "compiled" else self.model
        self.steps = 0

    def __call__(self) -> float:
        with execution_mode(self.device, self.mode):
            return self._step()

    def _step(self) -> float:
        synchronize(self.device)
        batch = self.batches[self.steps % len(self.batches)]
        loss = self.run(*(t.to(self.device) for t in batch))
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.steps += 1
        synchronize(self.device)
        return loss.item()


def fastest_cpu(model: str, size: str, tries: int = 5) -> Trainer:
    """CPU at whichever optimizer setting steps fastest here and now: a comparison owes the other side its best."""
    best = None
    for setting in OPTIMIZERS:
        trainer = Trainer(model, size, "cpu", setting)
        trainer()
        seconds = min(timed(trainer) for _ in range(tries))
        if best is None or seconds < best[0]:
            best = (seconds, trainer)
    return best[1]
