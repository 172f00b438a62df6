"""`tidelog version`."""

from __future__ import annotations

import json
import pkgutil
import platform
import sys
from pathlib import Path

import tidelog
from tidelog import kernel_choice


def _load_all() -> None:
    """Loading a kernel is what chooses its twin."""
    root = Path(tidelog.__file__).parent
    for folder in root.rglob("kernels"):
        package = ".".join((tidelog.__name__, *folder.relative_to(root).parts))
        for module in pkgutil.iter_modules([str(folder)]):
            if not module.name.startswith("_"):
                kernel_choice.load(package, module.name)


def print_version(version: str, *, as_json: bool) -> None:
    """Which Tidelog, which Python, and for each kernel whether it is compiled and, if not, why not."""
    _load_all()
    kernels = {name: {"twin": twin, "why": why} for name, (twin, why) in sorted(kernel_choice.loaded.items())}
    python = f"{platform.python_implementation()} {platform.python_version()}"
    if as_json:
        json.dump({"tidelog": version, "python": python, "kernels": kernels}, sys.stdout)
        sys.stdout.write("\n")
        return
    sys.stdout.write(f"tidelog {version} on {python}\n")
    for name, choice in kernels.items():
        why = f" ({choice['why']})" if choice["why"] else ""
        sys.stdout.write(f"kernel {name}: {choice['twin']}{why}\n")
