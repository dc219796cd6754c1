"""Runs a program on CPU and on the device, call by call, and compares: errors and metadata at once, values at reads.

A call that CPU leaves undefined, or that names a variable which is not there, is left out on both sides. Where values
differ by what rounding may do, the program runs again on CPU with noise of that size after each inexact result: a
difference that the noise reaches as well is no finding (`Outcome.noisy`).
"""

from __future__ import annotations

import contextlib
import functools
import operator
import warnings
from dataclasses import dataclass

import torch

from tests.fuzz import compare, hazards, helpers
from tests.fuzz.program import Instr, MissingError, Program, resolve

EPSILON = {torch.float64: 4e-16, torch.float32: 2e-7, torch.float16: 1e-3, torch.bfloat16: 8e-3}
# Where CPU finds a wrong value, the device finds it when it runs; test_errors.py has those.
LATE = (
    "index",
    "gather",
    "scatter",
    "take",
    "embedding",
    "put",
    "bincount",
    "nll",
    "cross_entropy",
    "one_hot",
)
NOISE_RUNS = 6


class Failure(Exception):
    def __init__(self, kind: str, text: str, where: tuple = (), instr: Instr | None = None):
        super().__init__(text)
        self.kind, self.text, self.where, self.instr = kind, text, where, instr

    def __str__(self) -> str:
        call = f" at {self.instr.call}" if self.instr else ""
        return f"{self.kind}{call} {self.where}: {self.text}"


@dataclass
class Outcome:
    failure: Failure | None = None
    noisy: bool = False
    steps: int = 0
    errors: int = 0


@functools.cache
def function_of(call: str):
    if call.startswith("."):
        return operator.methodcaller  # never called: see `invoke`
    if call.startswith("helpers."):
        return getattr(helpers, call.split(".", 1)[1])
    return operator.attrgetter(call.split(".", 1)[1])(torch)


def invoke(instr: Instr, args: tuple, kwargs: dict):
    if instr.call.startswith("."):
        return getattr(args[0], instr.call[1:])(*args[1:], **kwargs)
    return function_of(instr.call)(*args, **kwargs)


def bind(env: dict, instr: Instr, result) -> None:
    if len(instr.out) == 1 and not isinstance(result, (tuple, list)):
        result = (result,)
    if not isinstance(result, (tuple, list)):
        return
    for name, value in zip(instr.out, result):
        if isinstance(value, torch.Tensor):
            env[name] = value
        else:
            env.pop(name, None)


class Side:
    """One device's variables."""

    def __init__(self, device: str):
        self.device = torch.device(device)
        self.env: dict = {}

    def prepare(self, instr: Instr, iteration: int):
        args = resolve(instr.args, self.env, self.device, iteration)
        kwargs = {k: resolve(v, self.env, self.device, iteration) for k, v in instr.kwargs.items()}
        return args, kwargs

    def call(self, instr: Instr, args, kwargs):
        """(result, error)"""
        try:
            if instr.call == "helpers.delete":
                for name in args:
                    self.env.pop(name, None)
                return None, None
            if instr.thread and self.device.type != "cpu":
                result = helpers.in_thread(lambda: invoke(instr, args, kwargs))
            else:
                result = invoke(instr, args, kwargs)
        except Exception as error:
            return None, error
        bind(self.env, instr, result)
        return result, None


class Lockstep:
    def __init__(self, program: Program, device: str, exact: bool = False):
        self.program, self.exact = program, exact
        self.cpu, self.dev = Side("cpu"), Side(device)
        self.outcome = Outcome()
        self.mode = torch.neuron.get_execution_mode() if device != "cpu" else ""

    def run(self) -> Outcome:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self._run()
        except Failure as failure:
            failure.__traceback__ = failure.__context__ = None  # which hold tensors
            self.outcome.failure = failure
        finally:
            self.cpu.env.clear()
            self.dev.env.clear()
            helpers.use_stream(self.dev.device, 0)
            helpers.use_mode(self.dev.device, self.mode)
        return self.outcome

    def _run(self) -> None:
        for k, instr in enumerate(self.program.setup):
            self.step(instr, ("setup", 0, k))
        for i in range(self.program.iterations):
            if i and self.program.wait and self.dev.device.type == "neuron":
                torch.neuron.wait_for_compiles(60)
            for k, instr in enumerate(self.program.body):
                self.step(instr, ("body", i, k))
            if self.program.check_each:
                self.check_all(("end", i, 0), None)
        self.check_all(("end", self.program.iterations, 0), None)
        try:
            helpers.synchronize(self.dev.device)
        except Exception as error:
            raise Failure("error", f"at the end {type(error).__name__}: {first_line(error)}") from None

    def step(self, instr: Instr, where: tuple) -> None:
        iteration = where[1]
        try:
            cpu_args, cpu_kwargs = self.cpu.prepare(instr, iteration)
            dev_args, dev_kwargs = self.dev.prepare(instr, iteration)
        except MissingError:
            return
        if hazards.is_undefined(instr, cpu_args, cpu_kwargs):
            return
        if instr.call == ".as_strided" and storage_bytes(cpu_args[0]) != storage_bytes(dev_args[0]):
            return  # some results have more memory on CPU than they need
        self.outcome.steps += 1
        expected, cpu_error = self.cpu.call(instr, cpu_args, cpu_kwargs)
        if cpu_error is not None and any(word in instr.call for word in LATE):
            return
        actual, dev_error = self.dev.call(instr, dev_args, dev_kwargs)
        if cpu_error is not None or dev_error is not None:
            self.outcome.errors += 1
            if type(cpu_error) is not type(dev_error):
                raise Failure(
                    "error", f"CPU: {describe(cpu_error)}; device: {describe(dev_error)}", where, instr
                )
            self.forget_outputs(cpu_kwargs.get("out"))
            return
        self.compare_results(expected, actual, where, instr)
        if instr.call == "helpers.check":
            self.check_all(where, instr)

    def forget_outputs(self, outputs) -> None:
        """An out= tensor has any size and values after an error."""
        for x in hazards.tensors(outputs):
            for name in [n for n, y in self.cpu.env.items() if hazards.same_storage(x, y)]:
                self.cpu.env.pop(name)
                self.dev.env.pop(name, None)

    def compare_results(self, expected, actual, where, instr) -> None:
        if isinstance(expected, (tuple, list)) and any(isinstance(x, torch.Tensor) for x in expected):
            if len(expected) != len(actual):
                raise Failure("meta", f"{len(actual)} results instead of {len(expected)}", where, instr)
            for a, b in zip(expected, actual):
                self.compare_results(a, b, where, instr)
        elif isinstance(expected, torch.Tensor):
            if not isinstance(actual, torch.Tensor):
                raise Failure("meta", f"{actual!r} instead of a tensor", where, instr)
            difference = compare.meta_difference(expected, actual)
            if difference:
                raise Failure("meta", difference, where, instr)
        elif isinstance(expected, str) and expected != actual and instr.call == "helpers.printed":
            if not self.is_noise_of_reads(expected, where):
                raise Failure("value", f"printed {actual} instead of {expected}", where, instr)
        elif compare.values_difference(expected, actual, self.exact) and not self.is_noise_of_reads(
            expected, where
        ):
            raise Failure("value", f"read {actual} instead of {expected}", where, instr)

    def check_all(self, where: tuple, instr: Instr | None) -> None:
        if set(self.cpu.env) != set(self.dev.env):
            raise Failure("meta", f"variables {set(self.cpu.env) ^ set(self.dev.env)}", where, instr)
        shared: dict = {}
        for name in self.cpu.env:
            a, b = self.cpu.env[name], self.dev.env[name]
            difference = compare.meta_difference(a, b)
            if difference:
                raise Failure("meta", f"{name}: {difference}", where, instr)
            keys = (a.untyped_storage()._cdata, b.untyped_storage()._cdata)
            if (
                shared.setdefault(keys[0], keys[1]) != keys[1]
                or shared.setdefault(-keys[1], keys[0]) != keys[0]
            ):
                raise Failure("meta", f"{name} shares its storage with others than on CPU", where, instr)
            self.check_values(name, a, b, where, instr)
            ga, gb = (x.grad if compare.leaf(x) is True else None for x in (a, b))
            if (ga is None) != (gb is None):
                raise Failure("meta", f"{name}.grad is {gb} instead of {ga}", where, instr)
            if ga is not None:
                difference = compare.meta_difference(ga, gb)
                if difference:
                    raise Failure("meta", f"{name}.grad: {difference}", where, instr)
                self.check_values(name + ".grad", ga, gb, where, instr)

    def check_values(self, name, a, b, where, instr) -> None:
        try:
            expected, actual = compare.to_host(a), compare.to_host(b)
        except Exception as error:
            raise Failure("error", f"reading {name}: {describe(error)}", where, instr) from None
        mask = compare.differing(expected, actual, self.exact)
        if mask is None:
            return
        noisy = [self.noisy_run(seed, where).get(name) for seed in range(NOISE_RUNS)]
        if compare.excused(expected, actual, mask, noisy):
            self.outcome.noisy = True
            return
        at = mask.nonzero()[0].tolist()
        text = (
            f"{name} {expected.dtype} {list(expected.shape)}: {int(mask.sum())} of {mask.numel()} differ, "
            f"at {at} {actual[tuple(at)].item()} instead of {expected[tuple(at)].item()}"
        )
        raise Failure("value", text, where, instr)

    # --- noise

    def noisy_run(self, seed: int, until: tuple) -> dict:
        """Values on CPU at that point, by name, with rounding errors."""
        run = NoisyRun(self.program, seed)
        run.run(until)
        found = {name: compare.to_host(x).clone() for name, x in run.side.env.items()}
        for name, x in run.side.env.items():
            if compare.leaf(x) is True and x.grad is not None:
                found[name + ".grad"] = compare.to_host(x.grad).clone()
        return found

    def is_noise_of_reads(self, expected, where) -> bool:
        for seed in range(NOISE_RUNS):
            run = NoisyRun(self.program, seed)
            if compare.values_difference(expected, run.run(where), True):
                self.outcome.noisy = True
                return True
        return False


class NoisyRun:
    def __init__(self, program: Program, seed: int):
        self.program, self.side = program, Side("cpu")
        self.generator = torch.Generator().manual_seed(seed)

    def run(self, until: tuple):
        """Stops after `until`, and returns that call's result."""
        for k, instr in enumerate(self.program.setup):
            result = self.step(instr, 0)
            if ("setup", 0, k) == until:
                return result
        for i in range(self.program.iterations):
            for k, instr in enumerate(self.program.body):
                result = self.step(instr, i)
                if ("body", i, k) == until:
                    return result
            if ("end", i, 0) == until:
                return None
        return None

    def step(self, instr: Instr, iteration: int):
        try:
            args, kwargs = self.side.prepare(instr, iteration)
        except MissingError:
            return None
        if hazards.is_undefined(instr, args, kwargs):
            return None
        result, error = self.side.call(instr, args, kwargs)
        if error is None:
            for x in hazards.tensors(result) + hazards.written(instr, args, kwargs):
                self.disturb(x)
            if "backward" in instr.call:
                for x in list(self.side.env.values()):
                    if compare.leaf(x) is True and x.grad is not None:
                        self.disturb(x.grad)
        return result

    def disturb(self, x: torch.Tensor) -> None:
        """Moves each element that is no short binary fraction by a few units in the last place."""
        with torch.no_grad(), contextlib.suppress(RuntimeError):
            y = x.detach()
            if y.dtype.is_complex:
                y = torch.view_as_real(y.resolve_conj() if y.is_conj() else y)
            if y.dtype not in EPSILON or hazards.overlaps_itself(y):
                return
            plain = (y.double() * 1024 == (y.double() * 1024).round()) & (y.abs() < 4096)
            if y.dtype in (torch.float16, torch.bfloat16):
                plain = y == 0
            if bool(plain.all()):
                return
            noise = torch.randn(y.shape, generator=self.generator, dtype=torch.float64)
            y.data.copy_(torch.where(plain, y.double(), y.double() * (1 + EPSILON[y.dtype] * noise)))


def storage_bytes(x: torch.Tensor) -> int:
    return x.untyped_storage().nbytes()


def describe(error: Exception | None) -> str:
    return "no error" if error is None else f"{type(error).__name__}: {first_line(error)}"


def first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:300] if lines else ""
