"""A mixture of experts that gathers tokens by expert and adds the results back with index_add."""

import torch
import torch.nn.functional as F
from torch import nn


class MoE(nn.Module):
    """`dynamic`: loop over the experts, each on as many rows as chose it. Otherwise every (token, choice) pair
    brings its expert's weights along, so that all shapes are known beforehand."""

    def __init__(self, vocabulary: int, dim: int, experts: int, chosen: int, dynamic: bool = False):
        super().__init__()
        self.chosen, self.dynamic = chosen, dynamic
        self.embed = nn.Embedding(vocabulary, dim)
        self.router = nn.Linear(dim, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, dim, 2 * dim) / dim**0.5)
        self.down = nn.Parameter(torch.randn(experts, 2 * dim, dim) / (2 * dim) ** 0.5)
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocabulary)

    def experts(self, x: torch.Tensor) -> torch.Tensor:
        gates, experts = self.router(x).softmax(-1).topk(self.chosen, dim=-1)
        gates = gates / gates.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        if self.dynamic:
            for e in range(self.up.shape[0]):
                token, choice = torch.where(experts == e)
                y = F.relu(x[token] @ self.up[e]) @ self.down[e]
                out.index_add_(0, token, y * gates[token, choice, None])
            return out
        token = torch.arange(x.shape[0], device=x.device).repeat_interleave(self.chosen)
        expert = experts.flatten()
        y = torch.bmm(F.relu(torch.bmm(x[token, None, :], self.up[expert])), self.down[expert])
        return out.index_add(0, token, y.squeeze(1) * gates.flatten()[:, None])

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.embed(inputs).flatten(0, 1)
        x = x + self.experts(x)
        return F.cross_entropy(self.head(self.norm(x)), targets.flatten())
