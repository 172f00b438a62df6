"""Tidelog installs with a compiler and without one, and works either way."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tidelog.kernel_choice import EXTENSION, EXTENSION_SUFFIX, STAMP

ROOT = Path(__file__).resolve().parents[2]
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]

# Also what a build needs is pinned; newer pips read a variable of its own for that.
PINNED = {name: str(ROOT / "constraints.txt") for name in ("PIP_CONSTRAINT", "PIP_BUILD_CONSTRAINT")}


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """What a command prints. Where it fails, so does the test, with all that it said."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("TIDELOG_", "PYTHON"))}
    ended = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=cwd, env={**kept, **variables}
    )
    assert ended.returncode == 0, f"{command}\n{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"
    return ended.stdout


def copied_source(tmp_path: Path) -> Path:
    """What is in the repository, without what was built in it."""
    tree = tmp_path / "tree"
    ignored = shutil.ignore_patterns("*.so", "*.stamp", "__pycache__", "*.egg-info")
    shutil.copytree(ROOT / "src", tree / "src", ignore=ignored)
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree / name)
    return tree


def built_wheel(tmp_path: Path) -> Path:
    (wheel,) = (tmp_path / "wheels").glob("*.whl")
    return wheel


def test_the_sdist_serves_where_there_is_neither_compiler_nor_cython(tmp_path: Path) -> None:
    run(sys.executable, "setup.py", "--quiet", "sdist", "--dist-dir", tmp_path, cwd=copied_source(tmp_path))
    (sdist,) = tmp_path.glob("*.tar.gz")
    # In two steps, since pip would otherwise keep the wheel in its cache, and take it in the next run in place of this source.
    build = [*PIP, "wheel", "--no-deps", "--no-cache-dir"]
    run(*build, "--wheel-dir", tmp_path / "wheels", sdist, cwd=tmp_path, CC="/bin/false", **PINNED)
    bare = tmp_path / "bare"
    run(sys.executable, "-m", "venv", "--without-pip", bare, cwd=tmp_path)
    python = bare / "bin" / "python"
    run(*PIP, "--python", python, "install", built_wheel(tmp_path), cwd=tmp_path, **PINNED)

    has_cython = "import importlib.util; print(importlib.util.find_spec('Cython'), importlib.util.find_spec('cython'))"
    assert run(python, "-I", "-c", has_cython, cwd=tmp_path) == "None None\n"
    kernels = json.loads(run(bare / "bin" / "tidelog", "version", "--json", cwd=tmp_path))["kernels"]
    assert (kernels["twin"], kernels["why"]) == ("python", "the kernels were not compiled when tidelog was installed")
    run(python, "-I", ROOT / "tools" / "try_installation.py", "--kernels", "python", cwd=tmp_path)


def test_a_build_that_fails_says_so_and_leaves_nothing_of_an_older_one(tmp_path: Path) -> None:
    """Older versions had an extension for each module, which Python would prefer to its source."""
    tree = copied_source(tmp_path)
    package = tree / "src" / "tidelog"
    older = [package / EXTENSION, package / STAMP, package / "model" / f"clock{EXTENSION_SUFFIX}"]
    older.append(package / f"compiled{EXTENSION_SUFFIX}.stamp")
    for path in older:
        path.write_text("")

    command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
    built = subprocess.run(
        command, cwd=tree, env={**os.environ, "CC": "/bin/false"}, capture_output=True, text=True, check=False
    )

    assert built.returncode == 0
    assert "tidelog: nothing was compiled, plain Python serves instead: " in built.stderr
    assert not [path for path in older if path.exists()]


@pytest.mark.skipif(shutil.which("cc") is None and shutil.which("gcc") is None, reason="no C compiler on this machine")
def test_with_a_compiler_the_wheel_has_compiled_kernels(tmp_path: Path) -> None:
    build = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir"]
    # Whether the kernels compile and load takes no optimisation, which is most of a compiler's work.
    run(*build, "--wheel-dir", tmp_path / "wheels", copied_source(tmp_path), cwd=tmp_path, CFLAGS="-O0")
    with zipfile.ZipFile(built_wheel(tmp_path)) as wheel:
        named = [name for name in wheel.namelist() if name.endswith((EXTENSION_SUFFIX, ".stamp"))]
    assert sorted(named) == [f"tidelog/{EXTENSION}", f"tidelog/{STAMP}"]
    installed = tmp_path / "installed"
    run(*PIP, "install", "--no-deps", "--no-index", "--target", installed, built_wheel(tmp_path), cwd=tmp_path)

    # Its dependencies come from the environment of the tests.
    program = (
        f"import sys; sys.path.insert(0, {str(installed)!r}); import tidelog;"
        f"assert tidelog.__file__.startswith({str(installed)!r}), tidelog.__file__;"
        "from tidelog.cli.commands import all_commands; all_commands()(['version', '--json'])"
    )
    kernels = json.loads(run(sys.executable, "-c", program, cwd=tmp_path))["kernels"]

    assert kernels == {"twin": "compiled", "why": ""}
