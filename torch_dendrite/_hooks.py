"""What is attached to PyTorch beyond its registration interfaces, without importing Dynamo, which takes seconds.

- Dynamo's table of device interfaces has no entry point: ours is entered right after that module is imported.
- Printing formats on the host: PyTorch would run a dozen small operators of ever new sizes on the device.
- ``torch.compile(model)`` means Inductor. Inductor has no code generator for this device, so its wrapper hands graphs
  with tensors of the device to our backend. Graphs without are Inductor's, as ever.
"""

from __future__ import annotations

import atexit
import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import torch

from torch_dendrite import _C, _dlpack

_INTERFACES = "torch._dynamo.device_interface"


def install() -> None:
    atexit.register(_C.shutdown)
    _dlpack.register()
    if _INTERFACES in sys.modules:
        _register_interface()
    else:
        sys.meta_path.insert(0, _AfterImport())
    _route_default_backend()
    _print_on_host()


def _print_on_host() -> None:
    import torch._tensor_str as printing

    original = printing._tensor_str

    @functools.wraps(original)
    def tensor_str(self: torch.Tensor, indent: int) -> str:
        plain = type(self) in (torch.Tensor, torch.nn.Parameter)
        if (
            plain
            and self.device.type == "neuron"
            and not torch._C._functorch.is_functorch_wrapped_tensor(self)
        ):
            self = self.detach().cpu()
        return original(self, indent)

    printing._tensor_str = tensor_str


def _register_interface() -> None:
    from torch_dendrite import _device_interface

    _device_interface.register()


class _AfterImport(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds one module, as the others would, and acts once that module has run."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _INTERFACES:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            self._loader = spec.loader
            spec.loader = self
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        _register_interface()


def _route_default_backend() -> None:
    wrapper = torch._TorchCompileInductorWrapper
    inductor = wrapper.__call__

    @functools.wraps(inductor)
    def call(self: Any, graph_module: torch.fx.GraphModule, inputs: Sequence[Any], **kwargs: Any) -> Any:
        from torch_dendrite import _compile

        if not _compile.is_on_device(graph_module, inputs):
            return inductor(self, graph_module, inputs, **kwargs)
        return _compile.instead_of_inductor(self, graph_module, inputs)

    wrapper.__call__ = call
