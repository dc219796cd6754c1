"""Runs PyTorch calls through the lowerings and a PJRT plugin, on torch CPU tensors' own memory.

A Recorder is a TorchDispatchMode that writes every ATen call of a block into a tape as text; run() then
lowers, compiles and executes the tape on copies of the storages, and gives those copies back to compare with
what PyTorch computed. Views are not recorded: like the device, the recorder sees tensors as views over storages.
"""

import ctypes
import dataclasses
import os
import pathlib
import subprocess
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = {
    torch.bool: "i1", torch.uint8: "ui8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32",
    torch.int64: "i64", torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64",
    torch.complex64: "complex<f32>", torch.complex128: "complex<f64>",
}  # fmt: skip
(
    NONE,
    TENSOR,
    TENSOR_LIST,
    INT,
    FLOAT,
    BOOL,
    COMPLEX,
    INT_LIST,
    FLOAT_LIST,
    BOOL_LIST,
    STRING,
    DTYPE,
    LIFTED,
) = range(13)
IGNORED = 14
IGNORED_NAMES = {"layout", "device", "memory_format", "pin_memory", "generator"}


class Unimplemented(Exception):
    pass


def library():
    path = os.environ.get(
        "DENDRITE_LOWERING_HARNESS", str(ROOT / "build/main/libdendrite_lowering_harness.so")
    )
    lib = ctypes.CDLL(path)
    for name in ("message", "stablehlo", "ops"):
        getattr(lib, f"dendrite_harness_{name}").restype = ctypes.c_char_p
    plugin = os.environ.get("DENDRITE_TEST_PLUGIN") or embedded_plugin()
    if lib.dendrite_harness_open(plugin.encode()):
        raise RuntimeError(lib.dendrite_harness_message().decode())
    return lib


def embedded_plugin():
    found = subprocess.run(
        [sys.executable, str(ROOT / "tools/find_packages.py")], capture_output=True, text=True
    )
    return found.stdout.strip().split(";")[2]


_library = None


def get_library():
    global _library
    if _library is None:
        _library = library()
    return _library


def lowered_ops():
    return set(get_library().dendrite_harness_ops().decode().split())


def csv(values):
    return ",".join(str(int(v)) for v in values) or "-"


@dataclasses.dataclass
class Storage:
    index: int
    before: torch.Tensor  # bytes when first seen
    untyped: object  # keeps it alive, so that addresses stay unique
    live: bool = True


def raw_bytes(tensor):
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())


class Record:
    """One call under construction: operands are numbered as they appear, the same tensor object once."""

    def __init__(self, recorder, op):
        self.recorder, self.op = recorder, op
        self.operands, self.lines, self.index_of = [], [], {}

    def operand(self, t, read=False, written=False):
        if id(t) in self.index_of:
            entry = self.operands[self.index_of[id(t)]]
            entry["read"] |= read
            entry["written"] |= written
            return self.index_of[id(t)]
        self.index_of[id(t)] = len(self.operands)
        self.operands.append(dict(tensor=t, read=read, written=written, storage=self.recorder.storage(t)))
        return len(self.operands) - 1

    def arg(self, kind, dtype="-", i=0, d=0.0, im=0.0, ints=(), floats=(), s=""):
        floats = ",".join(repr(float(f)) for f in floats) or "-"
        self.lines.append(f"arg {kind} {dtype} {int(i)} {d!r} {im!r} {csv(ints)} {floats} {s}")

    def add_value(self, name, value, lift, mutated):
        rec = self.recorder
        if name in IGNORED_NAMES:
            self.arg(IGNORED)
        elif value is None:
            self.arg(NONE)
        elif isinstance(value, torch.Tensor):
            self.arg(TENSOR, ints=[self.operand(value, read=True, written=mutated)])
        elif isinstance(value, torch.dtype):
            self.arg(DTYPE, dtype=DTYPES[value])
        elif isinstance(value, str):
            self.arg(STRING, s=value)
        elif isinstance(value, (bool, int, float, complex)) and lift:
            kind = {bool: "i1", int: "i64", float: "f64", complex: "complex<f64>"}[type(value)]
            self.arg(LIFTED, dtype=kind, i=self.num_lifted())
            v = complex(value)
            rec.lifted.append(f"lifted {int(v.real) if kind in ('i1', 'i64') else 0} {v.real!r} {v.imag!r}")
        elif isinstance(value, bool):
            self.arg(BOOL, i=value)
        elif isinstance(value, int):
            self.arg(INT, i=value)
        elif isinstance(value, float):
            self.arg(FLOAT, d=value)
        elif isinstance(value, complex):
            self.arg(COMPLEX, d=value.real, im=value.imag)
        elif isinstance(value, (list, tuple)):
            self.add_list(value, mutated)
        elif isinstance(value, (torch.device, torch.layout, torch.memory_format)):
            self.arg(IGNORED)
        else:
            raise TypeError(f"{self.op}: {name} = {value!r}")

    def num_lifted(self):
        return sum(line.startswith(f"arg {LIFTED} ") for line in self.lines)

    def add_list(self, value, mutated):
        if any(isinstance(v, torch.Tensor) for v in value):
            self.arg(TENSOR_LIST, ints=[-1 if v is None else self.operand(v, True, mutated) for v in value])
        elif value and all(isinstance(v, bool) for v in value):
            self.arg(BOOL_LIST, ints=value)
        elif any(isinstance(v, float) for v in value):
            self.arg(FLOAT_LIST, floats=value)
        else:
            self.arg(INT_LIST, ints=value)

    def text(self, results):
        out = [f"op {self.op}"]
        for o in self.operands:
            t = o["tensor"]
            flags = "r" * o["read"] + "w" * o["written"] + "c" * t.is_conj() + "g" * t.is_neg()
            slot = self.recorder.offset_slot(t)
            offset = 0 if slot >= 0 else t.storage_offset()
            out.append(
                f"operand {DTYPES[t.dtype]} {csv(t.shape)} {csv(t.stride())} {flags or '-'} "
                f"{o['storage'].index} {offset} {slot} -1"
            )
        return "\n".join([*out, *self.lines, f"results {csv(results)}"])


FACTORIES = {
    "aten.empty",
    "aten.empty_strided",
    "aten.empty_like",
    "aten.new_empty",
    "aten.new_empty_strided",
}


class Recorder(TorchDispatchMode):
    """lift: names of operators' scalar arguments that become lifted values, such as {"alpha", "value"};
    lift_offsets: offsets of views that are not 0 become lifted ones."""

    def __init__(self, lift=(), host_visible=True, kernels_by_name=False, lift_offsets=False):
        super().__init__()
        self.lift_offsets, self.lifted_offsets, self.born = lift_offsets, [], set()
        self.lift, self.host_visible, self.kernels_by_name = set(lift), host_visible, kernels_by_name
        self.storages, self.records, self.lifted, self.keep = {}, [], [], []

    def storage(self, t):
        untyped = t.untyped_storage()
        key = untyped._cdata
        if key not in self.storages:
            self.storages[key] = Storage(len(self.storages), raw_bytes(t).clone(), untyped)
        return self.storages[key]

    def offset_slot(self, t):
        if not self.lift_offsets or t.untyped_storage().nbytes() == t.numel() * t.element_size():
            return -1
        self.lifted_offsets.append(f"lifted_offset {t.storage_offset()}")
        return len(self.lifted_offsets) - 1

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        schema = func._schema
        aliases = any(r.alias_info and not r.alias_info.is_write for r in schema.returns)
        name = str(func)
        if aliases or name.rsplit(".", 1)[0] in FACTORIES:
            return func(*args, **kwargs)
        record = Record(self, functional_name(func))
        values = bind(schema, args, kwargs)
        outs = []
        for a, v in zip(schema.arguments, values):
            mutated = bool(a.alias_info and a.alias_info.is_write)
            if a.is_out:
                outs.append(v)
                continue
            record.add_value(a.name, v, a.name in self.lift, mutated)
        # What is in a result's storage before the call is not part of the tape: look at it now.
        for v in outs:
            self.storage(v)
        result = func(*args, **kwargs)
        # An operator without results (_fused_adam_) only has what it mutates.
        flat = list(result) if isinstance(result, (tuple, list)) else [] if result is None else [result]
        flat = [x for r in flat for x in (r if isinstance(r, (list, tuple)) else [r])]
        self.keep.append((args, kwargs, flat))
        fresh = {t.untyped_storage()._cdata for t in flat if isinstance(t, torch.Tensor)} - set(self.storages)
        self.born |= fresh  # no buffer yet, on an opaque target
        indices = [record.operand(t, written=True) if isinstance(t, torch.Tensor) else -1 for t in flat]
        for i, o in enumerate(record.operands):  # mutated beside the results
            if o["written"] and i not in indices:
                indices.append(i)
        self.records.append(record.text(indices))
        return result

    def text(self):
        head = []
        for key, s in self.storages.items():
            form = "" if self.host_visible or key in self.born else f" ui8 {s.before.numel()}"
            head.append(f"storage {s.before.numel()} {int(s.live)}{form}")
        return "\n".join([*head, *self.records, *self.lifted, *self.lifted_offsets]) + "\n"

    def run(self):
        """Executes the tape; checks every live storage's bytes against PyTorch's with `compare`."""
        lib = get_library()
        copies, pointers = [], (ctypes.c_void_p * max(1, len(self.storages)))()
        for i, s in enumerate(self.storages.values()):
            buffer = aligned_copy(s.before)
            copies.append(buffer)
            pointers[i] = buffer.data_ptr()
        index_error = ctypes.c_int(-1)
        code = lib.dendrite_harness_run(
            self.text().encode(), pointers, int(self.host_visible), int(self.kernels_by_name),
            ctypes.byref(index_error),
        )  # fmt: skip
        if code == 12:
            raise Unimplemented(lib.dendrite_harness_message().decode())
        if code:
            hlo = lib.dendrite_harness_stablehlo().decode()
            raise RuntimeError(lib.dendrite_harness_message().decode() + "\n" + self.text() + hlo)
        self.copies = dict(zip(self.storages, copies))
        return index_error.value

    def value_of(self, t):
        """The view `t` over what the tape left in its storage."""
        storage = self.copies[t.untyped_storage()._cdata].untyped_storage()
        v = torch.empty(0, dtype=t.dtype).set_(storage, t.storage_offset(), t.shape, t.stride())
        if t.is_conj():
            v = torch._C._conj(v) if hasattr(torch._C, "_conj") else v.conj()
        return torch._neg_view(v) if t.is_neg() else v


def aligned_copy(data):
    room = torch.empty(data.numel() + 128, dtype=torch.uint8)
    skip = -room.data_ptr() % 64
    out = torch.empty(0, dtype=torch.uint8)
    # A storage of its own over the aligned part, so that storage offsets count from its first byte.
    array = (ctypes.c_uint8 * max(1, data.numel())).from_address(room.data_ptr() + skip)
    out = torch.frombuffer(array, dtype=torch.uint8, count=data.numel()) if data.numel() else out
    out.copy_(data)
    out._room = room
    return out


def functional_name(func):
    base, overload = str(func).rsplit(".", 1)
    schema = func._schema
    if base.endswith("_") and not base.endswith("__"):
        base = base[:-1]
    is_out = any(a.is_out for a in schema.arguments)
    if is_out:
        names = [o for o in getattr(torch.ops.aten, base.split(".")[1]).overloads() if "out" not in o]
        want = [a.name for a in schema.arguments if not a.is_out]
        for o in names:
            other = getattr(getattr(torch.ops.aten, base.split(".")[1]), o)._schema
            if [a.name for a in other.arguments] == want and str(other.arguments) == str(
                [a for a in schema.arguments if not a.is_out]
            ):
                return f"{base}.{o}"
        return f"{base}.{names[0]}"
    return f"{base}.{overload}"


def bind(schema, args, kwargs):
    values = list(args)
    for a in schema.arguments[len(args) :]:
        values.append(
            kwargs[a.name] if a.name in kwargs else (a.default_value if a.has_default_value() else None)
        )
    return values
