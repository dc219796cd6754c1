"""The list of faults.

A fault is a table `[[fault]]` with exactly these keys:

    what   the mistake, in a few words: the name of the fault
    file   path from the root of the tree
    old    text that stands in the file exactly once
    new    what it becomes
    test   the test that must fail then: "dendrite_cache_test Suite.Case" for a C++ unit test, or what pytest is
           given ("tests/python/test_x.py::test_y --modes=adaptive"); settings (NAME=value) may stand before it
"""

import pathlib
import shlex
import tomllib
from dataclasses import dataclass, fields

FOLDER = pathlib.Path(__file__).parent / "faults"


@dataclass(frozen=True)
class NamedTest:
    env: tuple[tuple[str, str], ...]
    command: tuple[str, ...]  # the unit-test program and its filter, or pytest's arguments

    @classmethod
    def parse(cls, text: str) -> "NamedTest":
        words = shlex.split(text)
        count = next(i for i, word in enumerate(words) if "=" not in word or word.startswith("tests/"))
        return cls(tuple(tuple(word.split("=", 1)) for word in words[:count]), tuple(words[count:]))

    @property
    def is_unit(self) -> bool:
        return self.command[0].startswith("dendrite_")

    @property
    def targets(self) -> list[str]:
        """What has to be built for it."""
        if self.is_unit:
            return [self.command[0]]
        if self.command[0].startswith("tests/lowering/"):
            return ["dendrite_lowering_harness"]
        return ["_C", "dendrite-compile-worker"]

    @property
    def needs_torch_layers(self) -> bool:
        return "_C" in self.targets


@dataclass(frozen=True)
class Fault:
    what: str
    file: str
    old: str
    new: str
    test: str

    def problem(self, root: pathlib.Path) -> str:
        """Why it cannot be made in this tree; empty if it can."""
        path = root / self.file
        if not path.is_file():
            return f"{self.file} does not exist"
        count = path.read_text().count(self.old)
        if count != 1:
            return f"the old text stands {count} times in {self.file}"
        if self.old == self.new:
            return "the old text is the new text"
        return ""

    def apply(self, text: str) -> str:
        return text.replace(self.old, self.new)


def load(folder: pathlib.Path = FOLDER) -> list[Fault]:
    """All faults, those of one file together: that spares compiling it twice. ValueError names what is malformed."""
    faults = []
    keys = {field.name for field in fields(Fault)}
    for path in sorted(folder.glob("*.toml")):
        for table in tomllib.loads(path.read_text()).get("fault", []):
            if set(table) != keys:
                raise ValueError(
                    f"{path.name}: {table.get('what', table)}: the keys of a fault are {sorted(keys)}"
                )
            faults.append(Fault(**table))
    names = [fault.what for fault in faults]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"listed twice: {twice}")
    return sorted(faults, key=lambda fault: fault.file)
