"""PyTorch's operator database, run on the device and on CPU: the engine behind test_op_database.py, and a command.

    python -m tests.python.op_database --update [--full]    rewrite op_status.tsv and docs/op_status.md
    python -m tests.python.op_database --ops add,nn.functional.gelu
                                                            print these operators' results under the environment's
                                                            DENDRITE_TARGET, DENDRITE_TIER, DENDRITE_MODE

Operators run in a child process, one after another; when it dies or hangs, the operator that it was at is the one that
crashed, and a new child takes the rest.

Status of an operator in op_status.tsv, for each configuration:
    pass        every sample agrees with CPU
    fail        a sample of the short selection differs, raises or crashes
    fail_full   only a sample outside of the short selection does (seen with --full)
    skip: why   not comparable at all
and whether it ran on the device (`native`) or, in part at least, on the host (`host`).
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import selectors
import subprocess
import sys
import time
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
STATUS = ROOT / "tests/python/op_status.tsv"
PAGE = ROOT / "docs/op_status.md"
CONFIGURATIONS = {
    "embedded_0": {"DENDRITE_TARGET": "embedded", "DENDRITE_TIER": "0"},
    "embedded_compiled": {"DENDRITE_TARGET": "embedded", "DENDRITE_TIER": "compiled"},
    "opaque": {"DENDRITE_TARGET": "opaque", "DENDRITE_TIER": "auto"},
}
SHORT, LONG = 2, 40  # samples of an operator in float32, forward and backward
OTHER_DTYPES = ["int64", "bool", "bfloat16"]  # forward only
SECONDS_PER_OPERATOR = 240  # of a busy machine
TOLERANCES = {"float32": (1e-4, 2e-5), "bfloat16": (2e-2, 1e-2)}

# Values that mean nothing, or are no tensors' values: only shapes and dtypes are compared.
MEANINGLESS = {
    "empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided", "resize_", "resize_as_",
}  # fmt: skip
# Which of several equal elements their second result points at is up to the kernel; samples of floats have no ties.
TIES = {"kthvalue", "median", "nanmedian", "mode", "topk", "sort", "msort"}
HOST_ARGUMENTS = {"tensor_split"}  # wants its tensor of indices on the CPU, on every device
SKIPPED = {
    "to_sparse": "the device has strided tensors only",
    "sparse.mm": "the device has strided tensors only",
    "sparse.sampled_addmm": "the device has strided tensors only",
}


def configuration():
    """The column of op_status.tsv that the environment asks for."""
    opaque = os.environ.get("DENDRITE_TARGET") == "opaque" or (
        "DENDRITE_TARGET" not in os.environ and os.environ.get("DENDRITE_OPAQUE") == "1"
    )
    if opaque:
        return "opaque"
    return "embedded_compiled" if os.environ.get("DENDRITE_TIER") == "compiled" else "embedded_0"


# --- one operator, in the child


def name_of(op):
    return op.name + ("." + op.variant_test_name if op.variant_test_name else "")


def random_operators_watch():
    """A dispatch mode whose `seen` says whether an operator that draws random numbers was called."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        seen = False

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen |= torch.Tag.nondeterministic_seeded in func.tags
            return func(*args, **(kwargs or {}))

    return Watch()


def leave_seeds_alone():
    """The database seeds random operators the same on every call, which would hide that they are random."""
    from torch.testing._internal import common_methods_invocations

    common_methods_invocations.wrapper_set_seed.__code__ = (
        lambda op, *args, **kwargs: op(*args, **kwargs)
    ).__code__


class Comparison:
    def __init__(self, full):
        import torch
        from torch.utils import _pytree as pytree

        from tests.python.support import move

        self.torch, self.pytree, self.move, self.full = torch, pytree, move, full

    def samples(self, op, dtype):
        """(index, sample, is it of the short selection): equal in every process."""
        import numpy

        torch = self.torch
        torch.manual_seed(0)
        random.seed(0)
        numpy.random.seed(0)
        grad = op.supports_autograd and dtype.is_floating_point and dtype == torch.float32
        found = list(itertools.islice(op.sample_inputs("cpu", dtype, requires_grad=grad), LONG))
        count = SHORT if dtype == torch.float32 else 1
        short = set(random.Random(name_of(op)).sample(range(len(found)), min(count, len(found))))
        limit = len(found) if dtype == torch.float32 else 4
        for i, sample in enumerate(found):
            if i in short or (self.full and i < limit):
                yield i, sample, i in short

    def to_device(self, tree):
        torch = self.torch

        def one(x):
            if isinstance(x, torch.Tensor):
                return self.move(x, "neuron")
            if isinstance(x, torch.device) or (isinstance(x, str) and x == "cpu"):
                return torch.device("neuron:0") if isinstance(x, torch.device) else "neuron"
            return x

        return self.pytree.tree_map(one, tree)

    def call(self, op, sample, arguments, seed):
        """Result leaves and gradients."""
        torch = self.torch
        first, args, kwargs = arguments
        torch.manual_seed(seed)
        out = op(first, *args, **kwargs)
        leaves = [x for x in self.pytree.tree_leaves(out)]
        grads = []
        inputs = [
            x
            for x in self.pytree.tree_leaves(arguments)
            if isinstance(x, torch.Tensor) and x.requires_grad and x.is_leaf
        ]
        if inputs:
            processed = sample.output_process_fn_grad(out) if sample.output_process_fn_grad else out
            outs = [
                x
                for x in self.pytree.tree_leaves(processed)
                if isinstance(x, torch.Tensor) and x.requires_grad
            ]
            generator = torch.Generator().manual_seed(7)
            weights = [
                torch.randn(x.shape, generator=generator, dtype=torch.float32).to(x.dtype).to(x.device)
                for x in outs
            ]
            if outs:
                grads = list(torch.autograd.grad(outs, inputs, weights, allow_unused=True))
        return leaves + grads

    def to_cpu(self, leaves):
        torch = self.torch
        return [x.detach().cpu().resolve_conj() if isinstance(x, torch.Tensor) else x for x in leaves]

    def fresh(self, tree):
        return self.move(tree, "cpu")

    def check(self, op, sample, dtype):
        """None, or what is wrong. Samples that CPU itself refuses are no samples."""
        torch = self.torch
        arguments = (sample.input, sample.args, sample.kwargs)
        try:
            with random_operators_watch() as watch:
                expected = self.call(op, sample, self.fresh(arguments), 1)
            seeds = range(2, 10) if watch.seen else ()
            others = [self.call(op, sample, self.fresh(arguments), seed) for seed in seeds]
        except Exception:
            return None
        try:
            moved = self.to_device(arguments)
            if op.name in HOST_ARGUMENTS:
                moved = (moved[0], *arguments[1:])
            actual = self.to_cpu(self.call(op, sample, moved, 1))
            torch.neuron.synchronize()
        except Exception as error:
            return (
                f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
            )
        if len(actual) != len(expected):
            return f"{len(actual)} results instead of {len(expected)}"
        meaningless = op.name in MEANINGLESS or any(
            not self.equal(a, b) for other in others for a, b in zip(expected, other, strict=True)
        )
        for k, (a, e) in enumerate(zip(actual, expected)):
            if not isinstance(e, torch.Tensor):
                if not isinstance(e, torch.device) and not meaningless and a != e and not (a != a and e != e):
                    return f"result {k} is {a!r} instead of {e!r}"
                continue
            e = e.detach()
            if not isinstance(a, torch.Tensor) or a.shape != e.shape or a.dtype != e.dtype:
                return f"result {k} is {self.describe(a)} instead of {self.describe(e)}"
            if meaningless or (k == 1 and op.name in TIES and dtype != torch.float32):
                continue
            rtol, atol = TOLERANCES.get(str(e.dtype).removeprefix("torch."), TOLERANCES["float32"])
            if dtype == torch.bfloat16:  # which may have been widened since
                rtol, atol = TOLERANCES["bfloat16"]
            if not e.dtype.is_floating_point and not e.dtype.is_complex:
                rtol, atol = 0, 0
            difference = self.difference(a, e, rtol, atol)
            if difference and dtype.is_floating_point and e.is_floating_point():
                # CPU's own rounding on the way may be the worse of the two: a wider dtype is the judge.
                precise = self.in_wider(op, sample, arguments, dtype)
                if precise is not None and len(precise) > k and precise[k].shape == a.shape:
                    difference = self.difference(a, precise[k].to(e.dtype), rtol, atol) and difference
            if difference:
                return f"result {k}: {difference}"
        return None

    def difference(self, a, e, rtol, atol):
        try:
            self.torch.testing.assert_close(a, e.detach(), rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            return " ".join(str(error).split())[:160]
        return None

    def in_wider(self, op, sample, arguments, dtype):
        torch = self.torch
        wider = torch.float32 if dtype == torch.bfloat16 else torch.float64

        def one(x):
            if not isinstance(x, torch.Tensor) or x.dtype != dtype:
                return x
            return x.detach().to(wider).requires_grad_(x.requires_grad)

        try:
            found = self.call(op, sample, self.pytree.tree_map(one, self.fresh(arguments)), 1)
        except Exception:
            return None
        return found if all(isinstance(x, torch.Tensor) for x in found) else None

    def equal(self, a, b):
        torch = self.torch
        if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or a.layout != torch.strided:
            return True
        return a.shape == b.shape and self.difference(a, b.detach(), 0, 0) is None

    def describe(self, x):
        return f"{x.dtype}{list(x.shape)}" if isinstance(x, self.torch.Tensor) else repr(x)

    def run(self, op):
        """{"short": [problems], "long": [problems], "host": [operators], "samples": n}"""
        torch = self.torch
        result = {"op": name_of(op), "short": [], "long": [], "host": [], "samples": 0}
        torch.neuron.synchronize()
        torch.neuron.reset_stats()
        for dtype in [torch.float32] + [getattr(torch, n) for n in OTHER_DTYPES]:
            if dtype not in op.dtypes:
                continue
            label = str(dtype).removeprefix("torch.")
            for index, sample, is_short in self.samples(op, dtype):
                result["samples"] += 1
                problem = self.check(op, sample, dtype)
                if problem is not None:
                    result["short" if is_short else "long"].append(f"{label} sample {index}: {problem}")
        result["host"] = sorted(torch.neuron.stats()["fallback_ops"])
        return result


def child(full):
    """Reads operators' names, one a line; writes one line of JSON for each."""
    warnings.simplefilter("ignore")
    report = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what operators print is none of the report
    from torch.testing._internal.common_methods_invocations import op_db

    leave_seeds_alone()
    table = {name_of(op): op for op in op_db}
    comparison = Comparison(full)
    print(json.dumps({"names": sorted(table)}), file=report, flush=True)
    for line in sys.stdin:
        op = table[line.strip()]
        if op.name in SKIPPED:
            result = {"op": name_of(op), "skip": SKIPPED[op.name]}
        else:
            begin = time.process_time()
            try:
                result = comparison.run(op)
            except Exception as error:
                result = {
                    "op": name_of(op),
                    "short": [f"{type(error).__name__}: {error}"[:200]],
                    "long": [],
                    "host": [],
                }
            result["seconds"] = round(time.process_time() - begin, 2)
            if not result.get("samples") and not result["short"]:
                result = {"op": name_of(op), "skip": "no sample of a dtype that is compared"}
        print(json.dumps(result), file=report, flush=True)


# --- all operators, in the parent


class Child:
    def __init__(self, environment, full):
        command = [sys.executable, "-m", "tests.python.op_database", "--child"] + (["--full"] if full else [])
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        self.names = (self.read(300) or {}).get("names")

    def read(self, seconds):
        """The next report, or None if the child is dead or late."""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                return None
        line = self.process.stdout.readline()
        return json.loads(line) if line.endswith("\n") else None

    def ask(self, name):
        try:
            self.process.stdin.write(name + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return None
        return self.read(SECONDS_PER_OPERATOR)

    def end(self):
        """Closes the child; its exit status where it ended by itself, else "timeout"."""
        try:
            self.process.stdin.close()
            return self.process.wait(timeout=20)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self.process.kill()
            self.process.wait()
            return "timeout"


def run_all(environment=None, full=False, only=None, progress=None):
    """Results by operator. Raises if children cannot even start."""
    environment = {**os.environ, **(environment or {}), "TF_CPP_MIN_LOG_LEVEL": "3"}
    results, running = {}, Child(environment, full)
    if running.names is None:
        raise RuntimeError(f"the operator database did not load: exit status {running.end()}")
    names = only or running.names
    for name in names:
        if running is None:
            running = Child(environment, full)
        result = running.ask(name)
        if result is None:
            status = running.end()
            running = None
            what = "no answer in time" if status == "timeout" else f"the process died with status {status}"
            result = {"op": name, "short": ["crash: " + what], "long": [], "host": []}
        results[name] = result
        if progress:
            progress(result)
    if running is not None:
        running.end()
    return results


def status_of(result):
    """What op_status.tsv says of a result. A short run cannot tell fail_full from pass."""
    if "skip" in result:
        return "skip: " + result["skip"]
    if result["short"]:
        return "fail"
    if result["long"]:
        return "fail_full"
    return "pass"


# --- the list


def read_status():
    """{operator: {configuration: (status, place)}}"""
    rows = {}
    lines = STATUS.read_text().splitlines()
    columns = lines[0].split("\t")[1:]
    for line in lines[1:]:
        name, *cells = line.split("\t")
        rows[name] = dict(zip(columns, (tuple(cell.split("|")) for cell in cells), strict=True))
    return rows


def place_of(result):
    if "skip" in result:
        return "-"
    return "host" if result["host"] else "native"


def write_status(rows):
    lines = ["\t".join(["operator", *CONFIGURATIONS])]
    for name in sorted(rows):
        lines.append("\t".join([name, *("|".join(rows[name].get(c, ("pass", "-"))) for c in CONFIGURATIONS)]))
    STATUS.write_text("\n".join(lines) + "\n")


def write_page(rows):
    total = {c: [0, 0, 0, 0] for c in CONFIGURATIONS}
    for row in rows.values():
        for c, (status, place) in row.items():
            kind = (
                3
                if status.startswith("skip")
                else 2
                if status.startswith("fail")
                else 1
                if place == "host"
                else 0
            )
            total[c][kind] += 1
    text = [
        "# Operators",
        "",
        "Generated from `tests/python/op_status.tsv` by `python -m tests.python.op_database --update`: PyTorch's own",
        "operator database, compared with CPU, forward and backward. *native*: everything that it called was compiled;",
        '*host*: a part of it ran on PyTorch\'s CPU kernels, and `torch.neuron.stats()["fallback_ops"]` counts it;',
        "**fail**: a sample differs from CPU or raises. On the embedded target's tier 0 all operators run on PyTorch's",
        "CPU kernels, so it only knows *ok* and **fail**.",
        "",
        "| configuration | native | host | fail | not comparable |",
        "|---|---|---|---|---|",
        *(f"| {c} | " + " | ".join(str(n) for n in total[c]) + " |" for c in CONFIGURATIONS),
        "",
        "| operator | " + " | ".join(CONFIGURATIONS) + " |",
        "|---|" + "---|" * len(CONFIGURATIONS),
    ]
    for name in sorted(rows):
        cells = []
        for c in CONFIGURATIONS:
            status, place = rows[name].get(c, ("skip: not run", "-"))
            if status.startswith("fail"):
                cells.append("**fail**")
            elif status.startswith("skip"):
                cells.append(status.removeprefix("skip: "))
            else:
                cells.append("ok" if c == "embedded_0" else place)
        text.append(f"| {name} | " + " | ".join(cells) + " |")
    PAGE.write_text("\n".join(text) + "\n")


def update(only_configurations, full):
    """Without `full`, what only a full run can see stays as the list has it."""
    rows = read_status() if STATUS.exists() else {}
    for c in only_configurations:
        results = run_all(CONFIGURATIONS[c], full=full, progress=print_problems)
        for name, result in results.items():
            row = rows.setdefault(name, {})
            known, known_place = row.get(c, ("pass", "-"))
            status, place = status_of(result), place_of(result)
            if not full and status == "pass" and known == "fail_full":
                status = known
            if not full and place == "native" and known_place == "host":
                place = known_place
            row[c] = (status, place)
        for name in set(rows) - set(results):
            del rows[name]
    write_status(rows)
    write_page(rows)


def print_problems(result):
    problems = result.get("short", []) + result.get("long", [])
    for problem in problems[:3]:
        print(f"{result['op']}: {problem}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true")
    parser.add_argument("--configurations", default=",".join(CONFIGURATIONS), help="for --update")
    parser.add_argument("--ops", help="only these, comma-separated")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--json", help="write all results there")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args.full)
    if args.update:
        return update(args.configurations.split(","), args.full)
    only = args.ops.split(",") if args.ops else None
    results = run_all(full=args.full, only=only, progress=print_problems)
    failed = sum(1 for r in results.values() if r.get("short") or r.get("long"))
    host = sum(1 for r in results.values() if r.get("host"))
    print(f"{len(results)} operators, {failed} failed, {host} in part on the host")
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
