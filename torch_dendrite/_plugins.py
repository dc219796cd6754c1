"""Where plugins and programs are. Nothing is loaded here, only located."""

from __future__ import annotations

import importlib.util
import os
import pathlib
from functools import cache

_PACKAGE = pathlib.Path(__file__).resolve().parent


def _package_file(package: str, *parts: str) -> str | None:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):
        return None
    if spec is None or not spec.submodule_search_locations:
        return None
    path = pathlib.Path(next(iter(spec.submodule_search_locations)), *parts)
    return str(path) if path.is_file() else None


@cache
def embedded() -> str | None:
    """XLA's CPU plugin, a dependency of this package."""
    return _package_file("fastatomstruct_xla_cpu", "libpjrt_cpu.so")


@cache
def trainium() -> str | None:
    """AWS's plugin: ``NEURON_PJRT_PLUGIN``, or the package ``libneuronxla`` where it is installed."""
    path = os.environ.get("NEURON_PJRT_PLUGIN")
    return path or _package_file("libneuronxla", "libneuronpjrt.so")


def worker() -> pathlib.Path:
    """The compile worker, installed beside this file."""
    return _PACKAGE / "dendrite-compile-worker"
