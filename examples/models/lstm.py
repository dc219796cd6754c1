"""A language model on torch.nn.LSTM."""

import torch
import torch.nn.functional as F
from torch import nn


class LSTMModel(nn.Module):
    def __init__(self, vocabulary: int, dim: int, layers: int):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.lstm = nn.LSTM(dim, dim, layers, batch_first=True)
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(self.embed(inputs))
        return F.cross_entropy(self.head(states).flatten(0, 1), targets.flatten())
