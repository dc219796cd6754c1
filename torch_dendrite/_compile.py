"""``torch.compile(model, backend="neuron")``.

AOTAutograd's forward and backward graphs are functional ATen programs. Each is run as one *region*: its operators
are captured as in eager mode, become one snippet, and go through the same lowering, compiler and caches.
Shapes are static: a new shape is a new graph.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from torch_dendrite import _C


def _region(graph_module: torch.fx.GraphModule, _inputs: Sequence[Any]) -> Callable[..., Any]:
    from functorch.compile import make_boxed_func

    forward = graph_module.forward

    def run(*args: Any) -> Any:
        _C.begin_region()
        try:
            return forward(*args)
        finally:
            _C.end_region()

    return make_boxed_func(run)


def neuron_backend(graph_module: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Callable[..., Any]:
    """The Dynamo backend ``neuron``."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._inductor.decomposition import select_decomp_table  # noqa: F401 - loads the decompositions' registry

    if options.pop("mode", None) or options.pop("options", None):
        pass  # accepted as other backends accept them; there is one way to compile
    return aot_autograd(fw_compiler=_region, bw_compiler=_region)(graph_module, inputs)


def register() -> None:
    from torch._dynamo.backends import registry

    registry.register_backend(name="neuron", compiler_fn=neuron_backend)
