"""A program as Python text that needs nothing but PyTorch."""

from __future__ import annotations

import inspect

from tests.fuzz import helpers
from tests.fuzz.program import DEVICE, Each, Instr, Program, Var


def literal(value, sequence: str) -> str:
    if isinstance(value, Var):
        return value.name
    if isinstance(value, Each):
        return f"[{', '.join(literal(v, sequence) for v in value.values)}][{sequence} % {len(value.values)}]"
    if value is DEVICE:
        return "device"
    if isinstance(value, tuple):
        return "(" + "".join(literal(v, sequence) + ", " for v in value).rstrip() + ")"
    if isinstance(value, list):
        return "[" + ", ".join(literal(v, sequence) for v in value) + "]"
    if isinstance(value, slice):
        return f"slice({', '.join(literal(v, sequence) for v in (value.start, value.stop, value.step))})"
    if value is ...:
        return "..."
    if isinstance(value, float) and (value != value or value in (float("inf"), -float("inf"))):
        return f'float("{value}")'
    return repr(value)


def call(instr: Instr, sequence: str = "i") -> str:
    args = [literal(a, sequence) for a in instr.args]
    rest = [f"{k}={literal(v, sequence)}" for k, v in instr.kwargs.items()]
    if instr.call == "helpers.delete":
        return "del " + ", ".join(instr.args)
    if instr.call.startswith("."):
        text = f"{args[0]}{instr.call}({', '.join(args[1:] + rest)})"
    else:
        text = f"{instr.call.removeprefix('helpers.')}({', '.join(args + rest)})"
    if instr.thread:
        text = f"in_thread(lambda: {text})"
    if len(instr.out) == 1:
        several = instr.call in (".chunk", ".split", ".unbind") or "_foreach" in instr.call
        return f"{instr.out[0]} = {text}" + ("[0]" if several else "")
    return f"{', '.join(instr.out)}, *_ = {text}" if instr.out else text


def used_helpers(program: Program) -> list[str]:
    names = {i.call.split(".", 1)[1] for i in program.setup + program.body if i.call.startswith("helpers.")}
    names |= {"in_thread"} if any(i.thread for i in program.setup + program.body) else set()
    names.discard("delete")
    while True:
        source = "".join(inspect.getsource(getattr(helpers, n)) for n in names)
        more = {n for n, f in vars(helpers).items() if inspect.isfunction(f) and f"{n}(" in source} - names
        if not more:
            return sorted(names)
        names |= more


def text(program: Program, configuration=None) -> str:
    lines = []
    if configuration is not None:
        lines.append(
            f"# DENDRITE_TARGET={configuration.target} DENDRITE_TIER={configuration.tier} "
            f"DENDRITE_MODE={'adaptive' if configuration.mode == 'adaptive' else 'eager'}"
        )
    lines += ["import threading", "import time", "", "import torch", ""]
    names = used_helpers(program)
    if "use_stream" in names:
        lines += ["_streams = []", ""]
    for name in names:
        lines += [inspect.getsource(getattr(helpers, name))]
    lines += ["", "def run(device):", "    i = 0"]
    lines += [f"    {call(i, 'i')}" for i in program.setup]
    lines.append(f"    for i in range({program.iterations}):")
    lines += [f"        {call(i)}" for i in program.body] or ["        pass"]
    if program.wait:
        lines.append('        device.type == "neuron" and torch.neuron.wait_for_compiles()')
    lines.append("    return {k: v for k, v in locals().items() if isinstance(v, torch.Tensor)}")
    lines += [
        "",
        "",
        'cpu, dev = run(torch.device("cpu")), run(torch.device("neuron"))',
        "for name in cpu:",
        "    print(name, torch.equal(cpu[name], dev[name].cpu()), cpu[name], dev[name].cpu(), sep='\\n')",
    ]
    return "\n".join(lines)
