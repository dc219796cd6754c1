"""A convolutional classifier with batch normalisation."""

import torch
import torch.nn.functional as F
from torch import nn


def stage(inputs: int, outputs: int, stride: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(inplace=True),
    )


class ConvNet(nn.Module):
    def __init__(self, channels: int, width: int, classes: int):
        super().__init__()
        self.body = nn.Sequential(
            stage(channels, width),
            stage(width, width),
            nn.MaxPool2d(2),
            stage(width, 2 * width),
            stage(2 * width, 2 * width, stride=2),
        )
        self.head = nn.Linear(2 * width, classes)

    def logits(self, pictures: torch.Tensor) -> torch.Tensor:
        return self.head(F.adaptive_avg_pool2d(self.body(pictures), 1).flatten(1))

    def forward(self, pictures: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.logits(pictures), labels)
