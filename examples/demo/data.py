"""Real data that is already on the machine: Python's documentation topics, and scikit-learn's digits."""

import functools

import torch

MASK_TOKEN = 256
MASKED_SHARE = 0.15
IGNORED = -100  # label of a position that the masked-language loss leaves out


@functools.cache
def text() -> torch.Tensor:
    """The text of pydoc_data.topics as bytes (about 700 KB of English and Python)."""
    from pydoc_data.topics import topics

    joined = "\n\n".join(topics[key] for key in sorted(topics))
    return torch.frombuffer(bytearray(joined.encode()), dtype=torch.uint8).to(torch.int64)


def windows(rows: int, length: int, step: int) -> torch.Tensor:
    """`rows` random stretches of the text, `length` bytes each; equal steps give equal stretches."""
    generator = torch.Generator().manual_seed(step)
    starts = torch.randint(len(text()) - length, (rows, 1), generator=generator)
    return text()[starts + torch.arange(length)]


def next_byte(rows: int, length: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    sequence = windows(rows, length + 1, step)
    return sequence[:, :-1].contiguous(), sequence[:, 1:].contiguous()


def masked_bytes(rows: int, length: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    sequence = windows(rows, length, step)
    generator = torch.Generator().manual_seed(step)
    masked = torch.rand(rows, length, generator=generator) < MASKED_SHARE
    return sequence.masked_fill(masked, MASK_TOKEN), sequence.masked_fill(~masked, IGNORED)


@functools.cache
def _digits() -> tuple[torch.Tensor, torch.Tensor]:
    from sklearn.datasets import load_digits

    bunch = load_digits()
    pictures = torch.tensor(bunch.images, dtype=torch.float32).unsqueeze(1) / 16
    return pictures, torch.tensor(bunch.target, dtype=torch.int64)


def digits(rows: int, step: int) -> tuple[torch.Tensor, torch.Tensor]:
    pictures, labels = _digits()
    chosen = torch.randint(len(labels), (rows,), generator=torch.Generator().manual_seed(step))
    return pictures[chosen], labels[chosen]
