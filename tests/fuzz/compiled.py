"""The pure part of a program as one graph under torch.compile, against the same graph on CPU."""

from __future__ import annotations

import warnings

import torch

from tests.fuzz import compare, hazards, helpers
from tests.fuzz.lockstep import NOISE_RUNS, Failure, NoisyRun, Outcome, Side, describe, function_of
from tests.fuzz.program import DEVICE, Each, Instr, MissingError, Program, Var, walk

PURE_HELPERS = "getitem setitem op iop to_int named sort_stable values_only real_imag transposed".split()
MAKERS = "make make_strided index permutation filled".split()
CALLS = 2


def split(program: Program) -> tuple[Program, list[bool]]:
    """Makers move to the set-up; what is not pure, or wrong, or undefined is left out. Constants do not change.

    And for each call that is left, whether it returns several tensors.
    """

    def first(instr: Instr) -> Instr:
        def leaf(x):
            return walk(x.at(0), leaf) if isinstance(x, Each) else x

        return Instr(
            instr.call, walk(instr.args, leaf), {k: walk(v, leaf) for k, v in instr.kwargs.items()}, instr.out
        )

    setup, body = [first(i) for i in program.setup], []
    side, several = Side("cpu"), []
    for instr in [*setup, *map(first, program.body)]:
        name = instr.call.removeprefix("helpers.")
        helper = name != instr.call
        maker = helper and name in MAKERS
        if helper and not maker and name not in PURE_HELPERS and name != "delete":
            continue
        try:
            args, kwargs = side.prepare(instr, 0)
        except MissingError:
            continue
        if name != "delete":
            if hazards.is_undefined(instr, args, kwargs):
                continue
            result, error = side.call(instr, args, kwargs)
            if error is not None:
                continue
            if maker:
                setup.append(instr) if instr not in setup else None
            else:
                body.append(instr)
                several.append(isinstance(result, (tuple, list)))
    return Program(setup, body, 1), several


def graph_of(
    program: Program, several: list[bool], device: str
) -> tuple[torch.fx.GraphModule, list[str], list[str]]:
    """The body as a graph, with the names of its inputs and outputs."""
    graph = torch.fx.Graph()
    inputs = list(dict.fromkeys(name for instr in program.setup for name in instr.out))
    nodes = {name: graph.placeholder(name) for name in inputs}

    def argument(x):
        if isinstance(x, Var):
            return nodes[x.name]
        return torch.device(device) if x is DEVICE else x

    made = []
    for instr, is_list in zip(program.body, several):
        args = walk(instr.args, argument)
        kwargs = {k: walk(v, argument) for k, v in instr.kwargs.items()}
        if instr.call.startswith("."):
            node = graph.call_method(instr.call[1:], args, kwargs)
        else:
            node = graph.call_function(function_of(instr.call), args, kwargs)
        for k, name in enumerate(instr.out):
            nodes[name] = graph.call_function(helpers.nth, (node, k)) if is_list else node
            made.append(name)
    outputs = list(dict.fromkeys(made))
    graph.output(tuple(nodes[name] for name in outputs))
    return torch.fx.GraphModule(torch.nn.Module(), graph), inputs, outputs


def run_compiled(program: Program, device: str) -> Outcome:
    outcome = Outcome()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pure, several = split(program)
        outcome.steps = len(pure.body) * CALLS
        if not any(not i.call.startswith("helpers.delete") for i in pure.body):
            return outcome
        try:
            _run(pure, several, device, outcome)
        except Failure as failure:
            outcome.failure = failure
        finally:
            torch._dynamo.reset()
    return outcome


def _run(program: Program, several: list[bool], device: str, outcome: Outcome) -> None:
    cpu, dev = Side("cpu"), Side(device)
    for instr in program.setup:
        for side in (cpu, dev):
            side.call(instr, *side.prepare(instr, 0))
    on_host, inputs, outputs = graph_of(program, several, "cpu")
    module = graph_of(program, several, device)[0]
    on_device = torch.compile(module, backend="neuron" if device != "cpu" else "aot_eager", dynamic=False)
    for k in range(CALLS):
        where = ("call", k, 0)
        expected, cpu_error = _call(on_host.forward, [cpu.env[n] for n in inputs])
        actual, dev_error = _call(on_device, [dev.env[n] for n in inputs])
        if cpu_error is not None:
            return  # what was right at first is wrong on what the first call left
        if dev_error is not None:
            raise Failure("error", f"CPU: no error; compiled: {describe(dev_error)}", where)
        pairs = [(n, cpu.env[n], dev.env[n]) for n in inputs] + list(zip(outputs, expected, actual))
        for name, a, b in pairs:
            if (a.shape, a.dtype) != (b.shape, b.dtype):
                raise Failure(
                    "meta", f"{name}: {b.dtype}{list(b.shape)} instead of {a.dtype}{list(a.shape)}", where
                )
            x, y = compare.to_host(a), compare.to_host(b)
            mask = compare.differing(x, y, False)
            if mask is None:
                continue
            doubled = Program(program.setup, program.body, k + 1)
            noisy = []
            for seed in range(NOISE_RUNS):
                run = NoisyRun(doubled, seed)
                run.run(("end", k, 0))
                noisy.append(compare.to_host(run.side.env[name]).clone() if name in run.side.env else None)
            if compare.excused(x, y, mask, noisy):
                outcome.noisy = True
                return
            at = mask.nonzero()[0].tolist()
            raise Failure(
                "value", f"{name}: at {at} {y[tuple(at)].item()} instead of {x[tuple(at)].item()}", where
            )


def _call(function, arguments):
    try:
        return function(*arguments), None
    except Exception as error:
        return None, error
