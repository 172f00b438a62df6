"""Prepares `.venv` with everything the make targets need from PyPI, once, and again when what it depends on has changed.

    python3 tools/environment.py [extra]...       extras of pyproject.toml; `dev` if none is named

A digest of pyproject.toml, setup.py, constraints.txt and all that kernels are built from is kept beside the environment: the same
digest means nothing to do, so a second run costs a few milliseconds, and an edited kernel is compiled again. A lock makes two
runs at once safe: the second waits for the first and finds the work done.
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


def digest(extras: list[str]) -> str:
    files = [ROOT / "pyproject.toml", ROOT / "setup.py", ROOT / "constraints.txt"]
    files += sorted(path for path in ROOT.glob("src/tidelog/**/kernels/*.py") if not path.name.startswith("_"))
    files += sorted(ROOT.glob("src/tidelog/**/kernels/*.pxd"))
    summed = hashlib.sha256(f"{sys.version} {ROOT} {sorted(extras)}".encode())
    for file in files:
        summed.update(f"{file.relative_to(ROOT)}\0".encode())
        summed.update(file.read_bytes())
    return summed.hexdigest()


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


def main() -> None:
    if sys.version_info < PYTHON_MIN:
        sys.exit(f"tidelog needs Python {PYTHON_MIN[0]}.{PYTHON_MIN[1]} or newer; this is {sys.version.split()[0]}")
    extras = sys.argv[1:] or ["dev"]
    stamp = ROOT / ".venv-ready"
    with (ROOT / ".venv-lock").open("w") as lock:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        wanted = digest(extras)
        if (VENV / "bin" / "python").exists() and stamp.exists() and stamp.read_text() == wanted:
            return
        stamp.unlink(missing_ok=True)
        print(f"preparing {VENV.name} from PyPI: {', '.join(extras)}", flush=True)
        install(extras)
        stamp.write_text(wanted)


if __name__ == "__main__":
    main()
