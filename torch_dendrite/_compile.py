"""``torch.compile(model, backend="neuron")``, which is also what plain ``torch.compile(model)`` means on the device.

AOTAutograd's forward and backward graphs are functional ATen programs. Each runs as one *region*: its operators are
captured as in eager mode, become one snippet, and go through the same lowering, compiler and caches. An operator
without a lowering runs at tier 0, between two snippets. Shapes are static: a new shape is a new graph.

Imported by Dynamo's entry point group ``torch_dynamo_backends`` at the first use, never at start-up.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import register_graphsafe_rng_device_type

from torch_dendrite import _C
from torch_dendrite._program import make_program

# Names that torch.compile(mode=...) knows. There is one way to compile, so each of them means it.
_MODES = frozenset(
    (
        "default",
        "reduce-overhead",
        "max-autotune",
        "max-autotune-no-cudagraphs",
        "lite",
        "max-autotune-pointwise",
    )
)

# Checkpointed regions with random operators: forward and recomputation draw the same numbers.
register_graphsafe_rng_device_type("neuron")


def neuron_backend(
    graph_module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """The Dynamo backend ``neuron``."""
    if mode is not None and mode not in _MODES:
        raise ValueError(f"torch.compile: expected mode= to be one of {sorted(_MODES)}, got {mode!r}")
    if options:
        raise ValueError(f"torch.compile: the backend 'neuron' has no options=, got {sorted(options)}")
    _specialise(inputs)
    _spell_out_fma(graph_module)
    # Returned from a fresh AotAutograd each time: it keeps state of its compilers.
    return aot_autograd(fw_compiler=_region, bw_compiler=_region)(graph_module, inputs)


def _spell_out_fma(graph_module: torch.fx.GraphModule) -> None:
    """Dynamo rewrites ``addcdiv_``, ``addcmul_`` and ``add_`` for Inductor, with an operator that takes no numbers."""
    from torch._inductor import inductor_prims

    for node in graph_module.graph.nodes:
        if node.op == "call_function" and node.target is inductor_prims.fma:
            node.target = _multiply_add
    graph_module.recompile()


def _multiply_add(a: Any, b: Any, c: Any) -> Any:
    return torch.add(c, torch.mul(a, b))


def is_on_device(graph_module: torch.fx.GraphModule, inputs: Iterable[Any]) -> bool:
    """Whether the graph takes or makes a tensor of the device."""
    return bool(_devices(inputs)) or bool(_devices_of_graph(graph_module))


def instead_of_inductor(wrapper: Any, graph_module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
    """What Inductor's wrapper does with a graph of this device."""
    if isinstance(wrapper, torch._TorchCompileAOTInductorWrapper):
        raise NotImplementedError(
            "torch.compile(options={'use_aoti': True}) is not supported on the device neuron"
        )
    # Modes arrive as options, too. All are advice on how Inductor generates code: without one there is nothing to do.
    return neuron_backend(graph_module, inputs)


def _devices(values: Iterable[Any]) -> set[int]:
    found = set()
    for value in values:
        if isinstance(value, torch.Tensor) and value.device.type == "neuron":
            found.add(_C.current_device() if value.device.index is None else value.device.index)
    return found


def _devices_of_graph(graph_module: torch.fx.GraphModule) -> set[int]:
    from torch.utils import _pytree as pytree

    found: set[int] = set()
    for node in graph_module.graph.nodes:
        value = node.meta.get("val", node.meta.get("example_value"))
        if value is not None:
            found |= _devices(pytree.tree_leaves(value))
    return found


def _specialise(inputs: Sequence[Any]) -> None:
    """Turns symbolic sizes into the numbers that they stand for; Dynamo guards on each."""
    sizes: list[Any] = []
    for value in inputs:
        if isinstance(value, torch.Tensor):
            sizes += (*value.shape, *value.stride(), value.storage_offset())
        else:
            sizes.append(value)
    symbolic = [size for size in sizes if isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool))]
    for size in symbolic:
        plain = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}[type(size)]
        plain(size)
    if symbolic:
        warnings.warn(
            "the device neuron compiles for static shapes: a graph with sizes that change is compiled for each of "
            "them (torch.compile(dynamic=False) says so from the start)",
            stacklevel=2,
        )


def _interpreted(graph_module: torch.fx.GraphModule) -> Callable[[list[Any]], Sequence[Any]]:
    """The graph as a function of its list of inputs, by C++ where the graph allows."""
    run = make_program(graph_module)
    if run is None:
        return lambda args: graph_module.forward(*args)
    return lambda args: tuple(run(args))


def _region(graph_module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[[list[Any]], Any]:
    forward = _interpreted(graph_module)
    devices = sorted(_devices(inputs) | _devices_of_graph(graph_module))
    failure: Exception | None = None

    def run(args: list[Any]) -> Any:
        nonlocal failure
        if failure is not None:
            raise failure
        for device in devices:
            _C.begin_region(device)
        try:
            results = forward(args)
        except BaseException:
            for device in devices:
                _C.abandon_region(device)
            raise
        args.clear()
        try:
            for device in devices:
                _C.end_region(device)
        except Exception as error:
            failure = error
            raise
        return results

    run._boxed_call = True  # the caller's list is ours to empty: arguments die as early as they can
    return run
