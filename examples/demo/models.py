"""What the demo trains: each entry builds a model that maps a batch to its loss, and says what a batch is."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from examples.demo import data
from examples.models.conv import ConvNet
from examples.models.gpt import GPT


@dataclass
class Workload:
    title: str
    make: Callable[[], nn.Module]
    batch: Callable[[int], tuple[torch.Tensor, ...]]
    steps: int
    learning_rate: float = 1e-3


class MaskedBert(nn.Module):
    """transformers' BERT with random weights, on bytes. No dropout: losses are compared from device to device."""

    def __init__(self):
        super().__init__()
        from transformers import BertConfig, BertForMaskedLM

        config = BertConfig(
            vocab_size=data.MASK_TOKEN + 1,
            hidden_size=128,
            num_hidden_layers=3,
            num_attention_heads=4,
            intermediate_size=512,
            max_position_embeddings=128,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
        self.bert = BertForMaskedLM(config)

    def forward(self, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.bert(input_ids=inputs, labels=labels).loss


WORKLOADS = {
    "gpt": Workload(
        "GPT, next byte of Python's documentation",
        lambda: GPT(256, 128, 4, 4, 128),
        lambda step: data.next_byte(8, 128, step),
        steps=80,
    ),
    "conv": Workload(
        "convolutional network, handwritten digits",
        lambda: ConvNet(1, 32, 10),
        lambda step: data.digits(128, step),
        steps=200,
    ),
    "bert": Workload(
        "BERT, masked bytes of the same text",
        MaskedBert,
        lambda step: data.masked_bytes(8, 128, step),
        steps=80,
    ),
}
