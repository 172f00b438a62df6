"""`tidelog version`."""

from __future__ import annotations

import json
import pkgutil
import platform
import sys

from tidelog import kernel_choice
from tidelog.client import kernels as client_kernels
from tidelog.net import kernels as net_kernels
from tidelog.wire import kernels as wire_kernels


def _load_all() -> None:
    """Loading a kernel is what chooses its twin."""
    for package in (wire_kernels, net_kernels, client_kernels):
        for module in pkgutil.iter_modules(package.__path__):
            if not module.name.startswith("_"):
                kernel_choice.load(package.__name__, module.name)


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
