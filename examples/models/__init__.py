"""Small models in plain PyTorch that the demo, the tests and the benchmarks share.

Every module takes a batch and returns its loss, so one call is a whole forward pass. `build(name, size)` gives
a seeded model on the CPU and a function that makes the batch of a given step, the same on every run.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from .conv import ConvNet
from .convnext import ConvNeXt
from .gpt import GPT
from .llama import Llama
from .lstm import LSTMModel
from .moe import MoE
from .unet import UNet

Batch = tuple[torch.Tensor, ...]


@dataclass
class Case:
    """A model and its data. `batch(step)` makes CPU tensors; equal steps give equal tensors."""

    name: str
    module: nn.Module
    batch: Callable[[int], Batch]


def tokens(vocabulary: int, rows: int, length: int) -> Callable[[int], Batch]:
    """Sequences with something to learn: each next token is a fixed function of the last, one in eight noise."""

    def batch(step: int) -> Batch:
        generator = torch.Generator().manual_seed(step)
        noise = torch.randint(vocabulary, (rows, length + 1), generator=generator)
        keep = torch.rand(rows, length + 1, generator=generator) < 7 / 8
        sequence = noise.clone()
        for i in range(1, length + 1):
            followed = (sequence[:, i - 1] * 5 + 3) % vocabulary
            sequence[:, i] = torch.where(keep[:, i], followed, noise[:, i])
        return sequence[:, :-1].contiguous(), sequence[:, 1:].contiguous()

    return batch


def pictures(classes: int, rows: int, channels: int, side: int) -> Callable[[int], Batch]:
    """Noisy pictures of `classes` fixed patterns."""
    patterns = torch.randn(classes, channels, side, side, generator=torch.Generator().manual_seed(99))

    def batch(step: int) -> Batch:
        generator = torch.Generator().manual_seed(step)
        labels = torch.randint(classes, (rows,), generator=generator)
        noise = torch.randn(rows, channels, side, side, generator=generator)
        return patterns[labels] + 0.5 * noise, labels

    return batch


def denoising(rows: int, channels: int, side: int) -> Callable[[int], Batch]:
    make = pictures(4, rows, channels, side)

    def batch(step: int) -> Batch:
        noisy, labels = make(step)
        return noisy, make(step + 1)[0].roll(int(labels[0]), 0) * 0.5 + noisy * 0.5

    return batch


# name -> size -> (module, batches). "test" steps in milliseconds, "demo" in tens of them, "bench" takes 200 ms
# or more on one core, "large" holds 500 MB or more: for measuring memory.
CASES: dict[str, dict[str, Callable[[], tuple[nn.Module, Callable[[int], Batch]]]]] = {
    "gpt": {
        "test": lambda: (GPT(61, 32, 2, 2, 16), tokens(61, 4, 16)),
        "demo": lambda: (GPT(256, 128, 4, 4, 128), tokens(256, 8, 128)),
        "bench": lambda: (GPT(256, 256, 4, 8, 128), tokens(256, 8, 128)),
        "large": lambda: (GPT(256, 384, 6, 8, 128), tokens(256, 16, 128)),
    },
    "conv": {
        "test": lambda: (ConvNet(1, 8, 10), pictures(10, 16, 1, 8)),
        "demo": lambda: (ConvNet(1, 32, 10), pictures(10, 128, 1, 8)),
        "bench": lambda: (ConvNet(3, 96, 10), pictures(10, 160, 3, 16)),
    },
    "lstm": {
        "test": lambda: (LSTMModel(61, 24, 2), tokens(61, 4, 12)),
        "demo": lambda: (LSTMModel(256, 128, 2), tokens(256, 16, 64)),
        "bench": lambda: (LSTMModel(256, 448, 2), tokens(256, 32, 64)),
    },
    "unet": {
        "test": lambda: (UNet(3, 8), denoising(2, 3, 16)),
        "demo": lambda: (UNet(3, 16), denoising(8, 3, 32)),
        "bench": lambda: (UNet(3, 48), denoising(24, 3, 32)),
        "large": lambda: (UNet(3, 64), denoising(64, 3, 32)),
    },
    "llama": {
        "test": lambda: (Llama(61, 32, 2, 4, 2, 16), tokens(61, 4, 16)),
        "demo": lambda: (Llama(256, 128, 4, 8, 4, 128), tokens(256, 8, 128)),
        "bench": lambda: (Llama(256, 256, 4, 8, 4, 128), tokens(256, 9, 128)),
        "large": lambda: (Llama(256, 384, 6, 8, 4, 128), tokens(256, 16, 128)),
    },
    "moe": {
        "test": lambda: (MoE(61, 24, 4, 2), tokens(61, 4, 8)),
        "demo": lambda: (MoE(256, 64, 8, 2), tokens(256, 8, 32)),
        "bench": lambda: (MoE(256, 112, 8, 2), tokens(256, 16, 32)),
    },
    # The same model written as most are: the rows of each expert are found on the spot, so shapes depend on data.
    "moe_dynamic": {
        "test": lambda: (MoE(61, 24, 4, 2, dynamic=True), tokens(61, 4, 8)),
        "demo": lambda: (MoE(256, 128, 8, 2, dynamic=True), tokens(256, 16, 64)),
        "bench": lambda: (MoE(256, 416, 8, 2, dynamic=True), tokens(256, 32, 64)),
    },
    "convnext": {
        "test": lambda: (ConvNeXt(3, 8, 2, 10), pictures(10, 4, 3, 16)),
        "demo": lambda: (ConvNeXt(3, 32, 3, 10), pictures(10, 16, 3, 32)),
        "bench": lambda: (ConvNeXt(3, 128, 6, 10), pictures(10, 64, 3, 32)),
        "large": lambda: (ConvNeXt(3, 160, 6, 10), pictures(10, 128, 3, 32)),
    },
}


def build(name: str, size: str = "test", seed: int = 0) -> Case:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module, batch = CASES[name][size]()
    return Case(name, module, batch)
