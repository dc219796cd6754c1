"""FX graphs as programs that C++ runs (csrc/python/program.h)."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx.node import map_aggregate

from torch_dendrite import _C


def make_program(graph_module: torch.fx.GraphModule) -> Callable[[list[Any]], list[Any]] | None:
    """A function of the list of inputs, which it empties; None for a graph with anything but operators in it, such as
    higher-order operators and arithmetic on sizes."""
    try:
        return _translate(graph_module).run
    except _NotStraightError:
        return None
    except (RuntimeError, TypeError, ValueError):  # an argument that has no place in an operator's schema
        return None


class _NotStraightError(Exception):
    pass


def _translate(graph_module: torch.fx.GraphModule) -> _C.Program:
    nodes = list(graph_module.graph.nodes)
    inputs = [node for node in nodes if node.op == "placeholder"]
    program = _C.Program(len(inputs))
    values = {node: i for i, node in enumerate(inputs)}

    def ref(argument: Any) -> Any:
        if not isinstance(argument, torch.fx.Node):
            return argument
        if argument not in values or _results(argument) != 1:
            raise _NotStraightError
        return _C.Ref(values[argument])

    for node in nodes:
        if node.op == "placeholder":
            continue
        if node.op == "get_attr":
            value = operator.attrgetter(node.target)(graph_module)
            if not isinstance(value, torch.Tensor):
                raise _NotStraightError
            values[node] = program.add_constant(value)
        elif node.op == "output":
            if not isinstance(node.args[0], (tuple, list)):
                raise _NotStraightError
            program.finish([ref(output) for output in node.args[0]])
        elif node.target is operator.getitem:
            source, index = node.args
            if _results(source) > 1:
                values[node] = values[source] + index
            else:
                values[node] = program.add_item(values[source], index)
        elif isinstance(node.target, torch._ops.OpOverload):
            schema = node.target._schema
            args = list(map_aggregate(node.args, ref))
            kwargs = dict(map_aggregate(node.kwargs, ref))
            values[node] = program.add_call(schema.name, schema.overload_name, args, kwargs)
        else:
            raise _NotStraightError
    return program


def _results(node: torch.fx.Node) -> int:
    """How many values a node's call leaves; a list is one."""
    return len(node.target._schema.returns) if isinstance(node.target, torch._ops.OpOverload) else 1
