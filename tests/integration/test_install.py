"""Tidelog installs with a compiler and without one, and says which kernels it runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def build_wheel(tmp_path: Path, compiler: str | None) -> Path:
    """A wheel of a copy of the source, built by `compiler`, or by whatever the machine has."""
    tree = tmp_path / "tree"
    ignored = shutil.ignore_patterns("*.so", "_*.source", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    environment = dict(os.environ) if compiler is None else {**os.environ, "CC": compiler}
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run(
        [*command, "-w", str(tmp_path / "wheels"), str(tree)], check=True, env=environment, capture_output=True
    )
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    return wheel


def kernels_of(wheel: Path, tmp_path: Path) -> dict[str, dict[str, str]]:
    """What the installed wheel says of its kernels. Its dependencies come from the environment of the tests."""
    installed = tmp_path / "installed"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(installed)]
    subprocess.run([*pip, str(wheel)], check=True, capture_output=True)
    program = (
        f"import sys; sys.path.insert(0, {str(installed)!r}); import tidelog;"
        f"assert tidelog.__file__.startswith({str(installed)!r}), tidelog.__file__;"
        "from tidelog.cli.commands import app; app(['version', '--json'])"
    )
    environment = {name: value for name, value in os.environ.items() if name != "TIDELOG_KERNELS"}
    answer = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=tmp_path, env=environment
    )
    kernels: dict[str, dict[str, str]] = json.loads(answer.stdout)["kernels"]
    return kernels


def test_without_a_compiler_plain_python_serves(tmp_path: Path) -> None:
    kernels = kernels_of(build_wheel(tmp_path, compiler="/bin/false"), tmp_path)

    assert kernels
    assert {kernel["twin"] for kernel in kernels.values()} == {"python"}
    assert all("was not compiled" in kernel["why"] for kernel in kernels.values())


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on this machine")
def test_with_a_compiler_the_wheel_has_compiled_kernels(tmp_path: Path) -> None:
    kernels = kernels_of(build_wheel(tmp_path, compiler=None), tmp_path)

    assert kernels
    assert {kernel["twin"] for kernel in kernels.values()} == {"compiled"}
