"""Random numbers: Philox, a (seed, offset) pair per generator."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from torch_dendrite import _C
from torch_dendrite.neuron._index import index_of


def generators() -> tuple[torch.Generator, ...]:
    return tuple(_C.default_generator(i) for i in range(_C.device_count()))


def _get_generator(device: Any = None) -> torch.Generator:
    return _C.default_generator(index_of(device))


def manual_seed(seed: int) -> None:
    _get_generator().manual_seed(int(seed))


def manual_seed_all(seed: int) -> None:
    for generator in generators():
        generator.manual_seed(int(seed))


def seed() -> None:
    _get_generator().seed()


def seed_all() -> None:
    manual_seed_all(_get_generator().seed())


def initial_seed() -> int:
    return _get_generator().initial_seed()


def get_rng_state(device: Any = "neuron") -> Tensor:
    return _get_generator(device).get_state()


def set_rng_state(new_state: Tensor, device: Any = "neuron") -> None:
    _get_generator(device).set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    return [generator.get_state() for generator in generators()]


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    for generator, state in zip(generators(), new_states, strict=True):
        generator.set_state(state)


def _get_rng_state_offset(device: Any = "neuron") -> int:
    return _get_generator(device).get_offset()


def _set_rng_state_offset(offset: int, device: Any = "neuron") -> None:
    _get_generator(device).set_offset(offset)
