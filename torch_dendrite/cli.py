"""The command ``dendrite``."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import runpy
import sys
import time
from collections.abc import Sequence
from typing import Any

import torch_dendrite
from torch_dendrite import _C


def info(args: argparse.Namespace) -> int:
    facts = collect_info()
    if args.json:
        print(json.dumps(facts, indent=2))
        return 0
    for key, value in facts.items():
        if isinstance(value, dict):
            print(f"{key}:" if value else f"{key}: none")
            for inner, text in value.items():
                print(f"  {inner}: {text}")
        else:
            print(f"{key}: {value}")
    return 0


def collect_info() -> dict[str, Any]:
    """Starts the device, so that what is said of the plugin is what it said itself."""
    import torch

    started = dict(_C.info())
    plugin_keys = ("plugin", "platform", "platform_version", "api_version")
    traits = ("host_visible", "has_f64", "donation", "serialization", "kernels_by_name")
    return {
        "version": torch_dendrite.__version__,
        "torch": torch.__version__,
        "python": sys.version.split()[0],
        "target": started["target"],
        "note": started["note"] or "none",
        "devices": started["num_devices"],
        "plugin": {key: started.get(key, "opened with the first compile") for key in plugin_keys},
        "traits": {key: started[key] for key in traits},
        "cache": _cache_facts(),
        "operators with a lowering": len(_C.lowered_ops()),
        "settings": {knob["name"]: knob["value"] for knob in _C.knobs() if knob["is_set"]},
        "unknown settings": ", ".join(_C.unknown_knobs()) or "none",
    }


def _cache_files() -> list[pathlib.Path]:
    folder = _C.cache_dir()
    entries = pathlib.Path(folder, "entries")
    return sorted(entries.iterdir()) if folder and entries.is_dir() else []


def _cache_facts() -> dict[str, Any]:
    files = _cache_files()
    return {
        "folder": _C.cache_dir() or "off",
        "entries": len(files),
        "bytes": sum(file.stat().st_size for file in files),
    }


def cache_path(_: argparse.Namespace) -> int:
    print(_C.cache_dir() or "off")
    return 0


def cache_list(_: argparse.Namespace) -> int:
    """One line an entry, most recently used first; a total."""
    rows = []
    for file in _cache_files():
        try:
            stat = file.stat()
        except FileNotFoundError:  # another process made room
            continue
        rows.append((stat.st_mtime, stat.st_size, file.suffix[1:], file.stem))
    for used, size, kind, key in sorted(rows, reverse=True):
        print(f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(used))}  {size:>12,}  {kind:8}  {key}")
    print(f"{len(rows)} entries, {sum(row[1] for row in rows):,} bytes in {_C.cache_dir() or 'no folder'}")
    return 0


def cache_clear(_: argparse.Namespace) -> int:
    """Running programs keep what they have loaded and write anew what they compile."""
    removed = size = 0
    for file in _cache_files():
        try:
            size += file.stat().st_size
            file.unlink()
            removed += 1
        except FileNotFoundError:
            continue
    print(f"removed {removed} entries, {size:,} bytes, from {_C.cache_dir() or 'no folder'}")
    return 0


def run(args: argparse.Namespace) -> int:
    _apply_settings(args)
    return _run_program(args)


def trace(args: argparse.Namespace) -> int:
    _apply_settings(args)
    from torch_dendrite import neuron

    neuron.init()
    neuron.trace_start()
    try:
        return _run_program(args)
    finally:
        neuron.synchronize()
        events = neuron.trace_stop()
        pathlib.Path(args.output).write_text(json.dumps(chrome_trace(events)))
        print(
            f"{len(events)} events in {args.output}: open it in Perfetto or chrome://tracing", file=sys.stderr
        )


def chrome_trace(events: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Events of ``torch.neuron.trace_stop()`` in the format that trace viewers read: one thread per lane."""
    lanes = {lane: i for i, lane in enumerate(dict.fromkeys(event["lane"] for event in events))}
    rows: list[dict[str, Any]] = [
        {"ph": "M", "pid": 0, "tid": i, "name": "thread_name", "args": {"name": lane}}
        for lane, i in lanes.items()
    ]
    start = min((event["begin"] for event in events), default=0.0)
    for event in events:
        rows.append(
            {
                "ph": "X",
                "pid": 0,
                "tid": lanes[event["lane"]],
                "name": event["name"],
                "ts": (event["begin"] - start) * 1e6,
                "dur": (event["end"] - event["begin"]) * 1e6,
                "args": {"site": event["site"], "tier": event["tier"]},
            }
        )
    return {"traceEvents": rows, "displayTimeUnit": "ms"}


def _apply_settings(args: argparse.Namespace) -> None:
    # Read when the device starts, which is later.
    for name in ("mode", "target", "tier"):
        value = getattr(args, name)
        if value is not None:
            os.environ[f"DENDRITE_{name.upper()}"] = value


def _run_program(args: argparse.Namespace) -> int:
    sys.argv = [args.program, *args.arguments]
    if args.module:
        sys.path[0] = os.getcwd()
        runpy.run_module(args.program, run_name="__main__", alter_sys=True)
    else:
        sys.path[0] = str(pathlib.Path(args.program).resolve().parent)
        runpy.run_path(args.program, run_name="__main__")
    return 0


def _add_program(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--mode", choices=("eager", "adaptive"), help="how operators run (DENDRITE_MODE)")
    parser.add_argument(
        "--target", choices=("embedded", "opaque", "trainium"), help="on what (DENDRITE_TARGET)"
    )
    parser.add_argument("--tier", choices=("auto", "0", "compiled"), help="by which means (DENDRITE_TIER)")
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module, as in python -m")
    parser.add_argument("program", metavar="PROGRAM", help="Python script")
    parser.add_argument(
        "arguments", nargs=argparse.REMAINDER, metavar="...", help="the program's own arguments"
    )


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="dendrite", description="The PyTorch device neuron, from the command line."
    )
    parser.add_argument("--version", action="version", version=torch_dendrite.__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, function: Any, text: str, to: Any = commands) -> argparse.ArgumentParser:
        added = to.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        added.set_defaults(function=function)
        return added

    info_parser = command("info", info, "show the plugin, the target's traits, the caches and the settings")
    info_parser.add_argument("--json", action="store_true", help="as JSON")

    cache_text = "inspect the disk cache of compiled snippets"
    cache_parser = commands.add_parser("cache", help=cache_text, description=cache_text.capitalize() + ".")
    cache_commands = cache_parser.add_subparsers(required=True, metavar="ACTION")
    command("list", cache_list, "list the entries, most recently used first", cache_commands)
    command("clear", cache_clear, "remove all entries", cache_commands)
    command("path", cache_path, "print the folder", cache_commands)

    _add_program(command("run", run, "run a Python program with the device registered"))
    trace_parser = command("trace", trace, "run a Python program and write a timeline of what ran when")
    trace_parser.add_argument(
        "-o", "--output", default="dendrite_trace.json", help="file (default: %(default)s)"
    )
    _add_program(trace_parser)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    args = make_parser().parse_args(arguments)
    try:
        return args.function(args)
    except RuntimeError as error:
        if args.function in (run, trace):  # the program's own: its traceback is wanted
            raise
        print(f"dendrite: {str(error).splitlines()[0]}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
