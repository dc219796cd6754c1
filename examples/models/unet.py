"""A small U-Net: group normalisation, strided convolutions down, interpolation up, skip connections."""

import torch
import torch.nn.functional as F
from torch import nn


class ResBlock(nn.Module):
    def __init__(self, inputs: int, outputs: int, groups: int = 4):
        super().__init__()
        self.norm1 = nn.GroupNorm(1 if inputs % groups else groups, inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.norm2 = nn.GroupNorm(groups, outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.skip = nn.Conv2d(inputs, outputs, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv1(F.silu(self.norm1(x)))
        return self.conv2(F.silu(self.norm2(y))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, channels: int, width: int):
        super().__init__()
        self.enter = nn.Conv2d(channels, width, 3, padding=1)
        self.down1 = ResBlock(width, width)
        self.shrink = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.down2 = ResBlock(2 * width, 2 * width)
        self.middle = ResBlock(2 * width, 2 * width)
        self.up2 = ResBlock(4 * width, width)
        self.up1 = ResBlock(2 * width, width)
        self.leave = nn.Conv2d(width, channels, 1)

    def forward(self, noisy: torch.Tensor, clean: torch.Tensor) -> torch.Tensor:
        high = self.down1(self.enter(noisy))
        low = self.down2(self.shrink(high))
        x = F.interpolate(self.middle(F.avg_pool2d(low, 2)), scale_factor=2, mode="bilinear")
        x = self.up2(torch.cat([x, low], dim=1))
        x = F.interpolate(x, scale_factor=2, mode="nearest")
        x = self.up1(torch.cat([x, high], dim=1))
        return F.mse_loss(self.leave(x), clean)
