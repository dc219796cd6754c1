"""ConvNeXt's block: depthwise 7x7, channels-last normalisation, two pointwise layers, a learned scale."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.depthwise = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)
        self.scale = nn.Parameter(torch.full((dim,), 0.1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        y = self.scale * self.down(F.gelu(self.up(y)))
        return x + y.permute(0, 3, 1, 2)


class ConvNeXt(nn.Module):
    def __init__(self, channels: int, dim: int, blocks: int, classes: int):
        super().__init__()
        self.patch = nn.Conv2d(channels, dim, 4, stride=4)
        self.blocks = nn.Sequential(*(Block(dim) for _ in range(blocks)))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, classes)

    def forward(self, pictures: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.blocks(self.patch(pictures))
        return F.cross_entropy(self.head(self.norm(x.mean((2, 3)))), labels)
