"""Prepares `.venv` with everything the make targets need from PyPI, once, and again when what it depends on has changed.

    python3 tools/environment.py [extra]...       extras of pyproject.toml; `dev` if none is named

Two digests are kept beside the environment: of pyproject.toml, setup.py and constraints.txt, which decide what is installed,
and of all that is compiled. The same digests mean nothing to do, so a second run costs a few milliseconds; an edited module
with a `.pxd` beside it is compiled again, with what depends on it and nothing else, and linked with the others. A lock makes
two runs at once safe: the second waits for the first and finds the work done.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON_MIN = (3, 11)


def digest(files: list[Path], *others: object) -> str:
    summed = hashlib.sha256(" ".join(map(str, others)).encode())
    for file in files:
        summed.update(f"{file.relative_to(ROOT)}\0".encode())
        summed.update(file.read_bytes())
    return summed.hexdigest()


def digest_of_installed(extras: list[str]) -> str:
    return digest(
        [ROOT / name for name in ("pyproject.toml", "setup.py", "constraints.txt")], sys.version, ROOT, extras
    )


def digest_of_compiled() -> str:
    types = sorted((ROOT / "src" / "tidelog").rglob("*.pxd"))
    sources = [source for path in types if (source := path.with_suffix(".py")).exists()]
    return digest([*types, *sources, ROOT / "src" / "tidelog" / "_compiled.c"])


def install(extras: list[str]) -> None:
    if not (VENV / "bin" / "python").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(VENV)], check=True)
    constraints = str(ROOT / "constraints.txt")
    # Constraints hold for what a build needs as well; newer pips read a variable of its own for that.
    environment = {**os.environ, "PIP_CONSTRAINT": constraints, "PIP_BUILD_CONSTRAINT": constraints}
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--editable", f".[{','.join(sorted(extras))}]"], cwd=ROOT, env=environment, check=True)
    # An editable installation has no bytecode, and a first start that compiles 400 modules takes twice as long.
    subprocess.run([str(VENV / "bin" / "python"), "-m", "compileall", "-q", "src"], cwd=ROOT, check=True)


def compile_again() -> None:
    """Where no more than that has changed: it keeps what the last time has given, which an install does not."""
    python = str(VENV / "bin" / "python")
    subprocess.run([python, "setup.py", "--quiet", "build_ext", "--inplace"], cwd=ROOT, check=True)


def main() -> None:
    if sys.version_info < PYTHON_MIN:
        sys.exit(f"tidelog needs Python {PYTHON_MIN[0]}.{PYTHON_MIN[1]} or newer; this is {sys.version.split()[0]}")
    extras = sorted(sys.argv[1:] or ["dev"])
    stamp = ROOT / ".venv-ready"
    with (ROOT / ".venv-lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        wanted = [digest_of_installed(extras), digest_of_compiled()]
        there = (VENV / "bin" / "python").exists() and stamp.exists()
        found = stamp.read_text().split() if there else []
        if found == wanted:
            return
        stamp.unlink(missing_ok=True)
        # Cython is among what `dev` installs.
        if found[:1] == wanted[:1] and "dev" in extras:
            print("compiling what has changed", flush=True)
            compile_again()
        else:
            print(f"preparing {VENV.name} from PyPI: {', '.join(extras)}", flush=True)
            install(extras)
        stamp.write_text("\n".join(wanted))


if __name__ == "__main__":
    main()
