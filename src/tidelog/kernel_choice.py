"""Which twin of a kernel runs: the plain Python source, or the extension that was compiled from it at install.

A kernel is one module `kernels/<name>.py`. It runs as it is; `setup.py` also compiles it to `kernels/_<name>`. This module
is the only place that chooses between them:

- `TIDELOG_KERNELS=python` takes the source, `TIDELOG_KERNELS=compiled` insists on the extension;
- otherwise the extension is taken where there is one that was built from exactly the source beside it.

A binary whose source has been edited since is never used: it would silently shadow the edit.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
from pathlib import Path
from types import ModuleType
from typing import Literal

Twin = Literal["python", "compiled"]

# What each loaded kernel turned out to be, for `tidelog version`.
loaded: dict[str, tuple[Twin, str]] = {}


class KernelUnavailableError(ImportError):
    """`TIDELOG_KERNELS` asks for a twin that this installation does not have."""


def load(package: str, name: str) -> ModuleType:
    """The twin of kernel `name` in `package` that this process uses."""
    wanted = os.environ.get("TIDELOG_KERNELS", "")
    if wanted not in {"", "python", "compiled"}:
        raise KernelUnavailableError(f"TIDELOG_KERNELS is {wanted!r}; it can be 'python' or 'compiled'")
    if wanted == "python":
        loaded[name] = ("python", "chosen by TIDELOG_KERNELS")
        return load_twin(package, name, "python")
    missing = _why_not_compiled(package, name)
    if missing is None:
        loaded[name] = ("compiled", "")
        return load_twin(package, name, "compiled")
    if wanted == "compiled":
        raise KernelUnavailableError(f"TIDELOG_KERNELS=compiled, but {missing}")
    loaded[name] = ("python", missing)
    return load_twin(package, name, "python")


def load_twin(package: str, name: str, twin: Twin) -> ModuleType:
    """One twin by name, whatever the environment says: tests run over both."""
    return importlib.import_module(f"{package}.{name}" if twin == "python" else f"{package}._{name}")


def _why_not_compiled(package: str, name: str) -> str | None:
    """The reason why the extension cannot be used, or None where it can."""
    if importlib.util.find_spec(f"{package}._{name}") is None:
        return f"kernel {name} was not compiled when tidelog was installed"
    source = importlib.util.find_spec(f"{package}.{name}")
    if source is None or source.origin is None:
        return f"kernel {name} has no source to compare its binary with"
    path = Path(source.origin)
    stamp = path.with_name(f"_{name}.source")
    if not stamp.exists():
        return f"kernel {name} has a binary that does not say what it was built from"
    if stamp.read_text().strip() != _digest(path):
        return f"kernel {name} was edited after it was compiled; install again to rebuild it"
    return None


def _digest(source: Path) -> str:
    """Of all that a kernel is built from: its source, and what the kernels beside it share."""
    read = hashlib.sha256(source.read_bytes())
    for shared in sorted(source.parent.glob("*.pxd")):
        read.update(shared.read_bytes())
    return read.hexdigest()
