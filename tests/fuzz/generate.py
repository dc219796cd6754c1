"""Programs from seeds. Each call is tried on CPU while the program grows, so that most calls are right ones."""

from __future__ import annotations

import random
import warnings
from dataclasses import dataclass

import torch

from tests.fuzz import hazards
from tests.fuzz.lockstep import Side
from tests.fuzz.program import DEVICE, Each, Instr, MissingError, Program, Var

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTS = (torch.int64, torch.int32, torch.uint8)
DTYPES = (*FLOATS, *INTS, torch.bool, torch.complex64)
WEIGHTS = (40, 10, 10, 5, 14, 5, 4, 8, 4)
DIMS = (1, 2, 3, 4, 5, 8)
MAX_VARIABLES = 14
KEEP_WRONG_CALLS = 0.1  # of those that CPU refuses


@dataclass(frozen=True)
class Flavour:
    """What kind of programs: the mode decides what can be in them and how long they are."""

    mode: str = "eager"  # eager, adaptive, compiled
    waits: float = 0.5  # of the programs, those that wait for background compiles


class Gen:
    """The state while a program grows. Producers (ops.py, views.py, host.py) ask it for operands and return calls."""

    def __init__(self, seed: int, flavour: Flavour):
        self.rng = random.Random(seed * 2654435761 + 12345)
        self.flavour = flavour
        self.side = Side("cpu")
        self.count = 0
        self.iterations = 1
        self.persistent: set[str] = set()
        self.indices: set[str] = set()
        self.pending: list[Instr] = []
        dims = self.rng.sample(DIMS, 3)
        if self.rng.random() < 0.08:
            dims[0] = 0
        if self.rng.random() < 0.06:
            dims[0] = self.rng.choice([17, 33, 64])
        self.dims = dims
        self.dtypes = self.rng.choices(DTYPES, WEIGHTS, k=3)
        self.grads = self.rng.random() < 0.3
        self.special = self.rng.random() < 0.2

    # --- choices

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def pick(self, values):
        return self.rng.choice(values)

    def seed(self) -> int:
        return self.rng.randrange(1 << 20)

    def name(self) -> str:
        self.count += 1
        return f"t{self.count}"

    def shape(self, most: int = 3) -> tuple[int, ...]:
        rank = self.rng.choice([r for r in (0, 1, 1, 2, 2, 2, 3, 3) if r <= most])
        return tuple(self.pick(self.dims) for _ in range(rank))

    def dtype(self):
        return self.pick(self.dtypes) if self.chance(0.9) else self.rng.choices(DTYPES, WEIGHTS)[0]

    def var(self, accept=None) -> tuple[Var, torch.Tensor] | None:
        """A live variable, the later ones likelier."""
        names = [
            n for n, x in self.side.env.items() if n not in self.indices and (accept is None or accept(x))
        ]
        if not names:
            return None
        at = max(self.rng.randrange(len(names)), self.rng.randrange(len(names)))
        return Var(names[at]), self.side.env[names[at]]

    def like(self, x: torch.Tensor, same_dtype: bool = False, exact: bool = False) -> Var | None:
        """A variable that broadcasts with x, or has its very shape."""

        def accept(y):
            if same_dtype and y.dtype != x.dtype:
                return False
            if exact:
                return y.shape == x.shape
            return all(a in (b, 1) or b == 1 for a, b in zip(reversed(x.shape), reversed(y.shape)))

        found = self.var(accept)
        return found[0] if found else None

    def dim(self, x: torch.Tensor) -> int:
        if not x.dim():
            return self.pick([0, -1])
        return self.rng.randrange(-x.dim(), x.dim())

    def number(self, x: torch.Tensor | None = None, nonzero: bool = False):
        """A Python number that suits x, which may change from iteration to iteration."""
        if x is not None and not (x.is_floating_point() or x.is_complex()) and self.chance(0.85):
            values = [1, 2, 3, 5] if nonzero or x.dtype == torch.uint8 else [-3, -1, 0, 1, 2, 3, 7]
        else:
            values = [-2.5, -1.0, -0.5, 0.25, 0.5, 1.0, 1.5, 2, 3, 4.0] + ([] if nonzero else [0.0, -0.0])
        return self.each(lambda: self.pick(values), 0.4)

    def each(self, make, p: float = 0.3):
        if self.iterations == 1 or not self.chance(p):
            return make()
        return Each(tuple(make() for _ in range(self.iterations)))

    def new(self, *args, **kwargs) -> Instr:
        """A call with one new result."""
        call, *rest = args
        return Instr(call, tuple(rest), kwargs, (self.name(),))

    def before(self, instr: Instr) -> Var:
        """Puts a call before the one that is being made, and returns its result's name."""
        self.pending.append(instr)
        return Var(instr.out[0])

    # --- growing

    def add(self, instr: Instr, into: list[Instr]) -> bool:
        """Tries it on CPU; whether it is part of the program now."""
        mark = len(into)
        for call in [*self.pending, instr]:
            if not self._try(call):
                if len(into) > mark and call is instr:
                    for dropped in into[mark:]:
                        for name in dropped.out:
                            self.side.env.pop(name, None)
                    del into[mark:]
                self.pending.clear()
                return False
            into.append(call)
        self.pending.clear()
        return True

    def _try(self, instr: Instr) -> bool:
        try:
            args, kwargs = self.side.prepare(instr, 0)
        except MissingError:
            return False
        if hazards.is_undefined(instr, args, kwargs):
            return False
        result, error = self.side.call(instr, args, kwargs)
        if error is not None:
            return self.chance(KEEP_WRONG_CALLS)
        for x in hazards.tensors(result):
            useless = x.numel() > hazards.MAX_NUMEL or x.dim() > 6 or x.layout != torch.strided
            if not useless and x.is_floating_point() and x.numel() and not self.special:
                useless = not bool(x.detach().isfinite().all()) and self.chance(0.8)
            if useless or x.dtype not in (*DTYPES, torch.int16, torch.int8, torch.complex128):
                for name in instr.out:
                    self.side.env.pop(name, None)
                return False
        return True

    def make(self, dtype=None, shape=None) -> Instr:
        shape = self.shape() if shape is None else shape
        dtype = dtype or self.dtype()
        if self.chance(0.15) and shape:
            order = list(range(len(shape)))
            self.rng.shuffle(order)
            stride, span = [0] * len(shape), 1
            for d in order:
                stride[d] = span
                span *= max(shape[d], 1) * self.pick([1, 1, 2])
            offset = self.pick([0, 1, 3])
            return self.new("helpers.make_strided", DEVICE, shape, tuple(stride), offset, dtype, self.seed())
        special = self.special and self.chance(0.5)
        return self.new("helpers.make", DEVICE, shape, dtype, self.seed(), special)


def generate(seed: int, flavour: Flavour) -> Program:
    from tests.fuzz.producers import PRODUCERS

    g = Gen(seed, flavour)
    rng = g.rng
    g.iterations = rng.choice([1, 1, 2, 3] if flavour.mode == "eager" else [2, 3, 4, 4])
    length = rng.choice([3, 6, 10, 16, 24, 40])
    setup: list[Instr] = []
    body: list[Instr] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(rng.randint(2, 5)):
            g.add(g.make(), setup)
        g.persistent = set(g.side.env)
        weights = [
            (w * rng.choice([0.3, 1, 1, 3]) if mode in ("any", flavour.mode) else 0)
            for w, mode, _ in PRODUCERS
        ]
        makers = [make for _, _, make in PRODUCERS]
        threads = 0.05 if rng.random() < 0.1 else 0
        for _ in range(4 * length):
            if len(body) >= length:
                break
            instr = rng.choices(makers, weights)[0](g)
            if instr is None:
                g.pending.clear()
                continue
            if threads and g.chance(threads):
                instr.thread = True
            g.add(instr, body)
            if len(g.side.env) > MAX_VARIABLES:
                drop = [n for n in g.side.env if n not in g.persistent]
                if drop:
                    g.add(Instr("helpers.delete", tuple(rng.sample(drop, min(3, len(drop))))), body)
    g.side.env.clear()
    return Program(
        setup,
        body,
        g.iterations,
        wait=flavour.mode == "adaptive" and rng.random() < flavour.waits,
        check_each=rng.random() < 0.4,
    )
