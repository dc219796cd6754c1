"""Checks every #include in csrc/ against the layer table of docs/architecture.md.

    python tools/check_layers.py [root]

Prints one line per violation (file:line: what is wrong) and exits 1 if there is any. The table is the only
source of the rules: a folder that it does not name is a violation, so a new folder needs a row first.
"""

import pathlib
import re
import sys
from dataclasses import dataclass

TABLE_FILE = "docs/architecture.md"
SUFFIXES = {".h", ".cc", ".cpp", ".hpp"}
TESTING = "testing"
TESTING_MAY_INCLUDE = {"base", TESTING}
ROW = re.compile(r"^\|\s*`csrc/(\w+)`\s*\|[^|]*\|\s*([^|]+?)\s*\|\s*$")
INCLUDE = re.compile(r'^\s*#\s*include\s*["<]([^">]+)[">]')
# Headers that only the PyTorch side may see. A torch-free layer that includes Python.h is not torch-free.
PYTORCH_HEADERS = ("torch/", "ATen/", "c10/", "pybind11/", "Python.h")


@dataclass
class Layer:
    may_include: set[str]
    pytorch: bool


def read_layers(text: str) -> dict[str, Layer]:
    """Parses the table; `all of the above` is expanded to the rows before."""
    layers: dict[str, Layer] = {}
    for line in text.splitlines():
        match = ROW.match(line)
        if not match:
            continue
        folder, cell = match.groups()
        layer = Layer({folder}, False)
        for word in (w.strip() for w in cell.split(",")):
            if word == "all of the above":
                layer.may_include |= layers.keys()
            elif word == "PyTorch":
                layer.pytorch = True
            elif word in layers:
                layer.may_include.add(word)
            elif word != "nothing":
                raise ValueError(f"row csrc/{folder}: {word!r} is no row above it")
        layers[folder] = layer
    if not layers:
        raise ValueError("no layer table found")
    return layers


def check_file(root: pathlib.Path, path: pathlib.Path, layers: dict[str, Layer]) -> list[str]:
    relative = path.relative_to(root)
    folder = relative.parts[1]
    is_test = path.stem.endswith("_test")
    if folder == TESTING:
        layer = Layer(TESTING_MAY_INCLUDE, False)
    elif folder in layers:
        layer = layers[folder]
    else:
        return [f"{relative}:1: csrc/{folder} has no row in {TABLE_FILE}"]
    violations = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match.group(1)
        where = f"{relative}:{number}: "
        if header.startswith("csrc/"):
            target = header.split("/")[1]
            if target == TESTING and folder != TESTING:
                if not is_test:
                    violations.append(where + f"only tests may include csrc/testing ({header})")
            elif target not in layer.may_include:
                allowed = ", ".join(sorted(layer.may_include - {folder})) or "nothing"
                violations.append(
                    where + f"csrc/{folder} may not include csrc/{target} (may include: {allowed})"
                )
        elif header.startswith(PYTORCH_HEADERS):
            if not layer.pytorch:
                violations.append(where + f"csrc/{folder} may not see PyTorch ({header})")
        elif (path.parent / header).exists():
            violations.append(where + f'write the path from the root: "csrc/{folder}/{header}" or the like')
    return violations


def check_tree(root: pathlib.Path) -> list[str]:
    layers = read_layers((root / TABLE_FILE).read_text())
    violations = []
    for path in sorted((root / "csrc").glob("*/**/*")):
        if path.suffix in SUFFIXES and path.is_file():
            violations += check_file(root, path, layers)
    return violations


def main() -> int:
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    violations = check_tree(root.resolve())
    for violation in violations:
        print(violation)
    print(f"check_layers: {len(violations)} violation(s)")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
