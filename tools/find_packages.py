"""Prints, as a CMake list: the folder of pjrt_c_api.h, the folder above xla/ffi/api, the embedded plugin's library.

Headers and plugin are parts of Python packages (see pyproject.toml); nothing is imported, only located.
"""

import importlib.util
import pathlib
import sys


def package_dir(name: str) -> pathlib.Path:
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        sys.exit(f"the Python package {name!r} is not installed in {sys.prefix}: run `make setup`")
    return pathlib.Path(next(iter(spec.submodule_search_locations)))


def existing(path: pathlib.Path) -> str:
    if not path.exists():
        sys.exit(f"expected {path}: the package that ships it has changed")
    return str(path)


def main() -> None:
    pjrt = existing(package_dir("xla_plugins") / "xla_cpu_pjrt" / "include")
    existing(pathlib.Path(pjrt) / "pjrt_c_api.h")
    ffi = existing(package_dir("jaxlib") / "include")
    plugin = existing(package_dir("fastatomstruct_xla_cpu") / "libpjrt_cpu.so")
    sys.stdout.write(";".join([pjrt, ffi, plugin]))


if __name__ == "__main__":
    main()
