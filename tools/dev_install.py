"""Registers this working tree in the running Python's site-packages, as `pip install -e` would, in no time.

Writes a .dist-info with the entry points of pyproject.toml (torch finds its backends there), a .pth file with
the path of the tree, and the console scripts. CMake has already written the binaries into the packages, so
nothing is built twice. `pip uninstall torch-dendrite` removes it; a real install replaces it.
"""

import base64
import hashlib
import os
import pathlib
import sys
import sysconfig
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[1]
SCRIPT = """#!{python}
import sys
from {module} import {function}
sys.exit({function}())
"""


def main() -> None:
    if sys.prefix == sys.base_prefix:
        sys.exit("dev_install.py: run it with the Python of a virtual environment")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    site = pathlib.Path(sysconfig.get_path("purelib"))
    stem = project["name"].replace("-", "_")
    info = f"{stem}-{project['version']}.dist-info"

    groups = dict(project["entry-points"])
    groups["console_scripts"] = project["scripts"]
    entry_points = "".join(
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in rows.items())
        for group, rows in groups.items()
    )
    metadata = f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    metadata += f"Summary: {project['description']}\n"
    metadata += "".join(f"Requires-Dist: {need}\n" for need in project["dependencies"])
    files = {
        f"{stem}_dev.pth": f"{ROOT}\n",
        f"{info}/METADATA": metadata,
        f"{info}/INSTALLER": "dev_install\n",
        f"{info}/entry_points.txt": entry_points,
    }
    scripts = pathlib.Path(sysconfig.get_path("scripts"))
    for name, target in project["scripts"].items():
        module, function = target.split(":")
        path = os.path.relpath(scripts / name, site)
        files[path] = SCRIPT.format(python=sys.executable, module=module, function=function)

    for old in site.glob(f"{stem}-*.dist-info"):
        if old.name != info and (old / "INSTALLER").read_text().strip() == "dev_install":
            for file in old.iterdir():
                file.unlink()
            old.rmdir()
    record = ""
    for name, text in files.items():
        write_if_changed(site / name, text)
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(text.encode())}\n"
    write_if_changed(site / info / "RECORD", record + f"{info}/RECORD,,\n")
    for name in project["scripts"]:
        (scripts / name).chmod(0o755)


def write_if_changed(path: pathlib.Path, text: str) -> None:
    if path.exists() and path.read_text() == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


if __name__ == "__main__":
    main()
