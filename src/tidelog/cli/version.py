"""`tidelog version`."""

from __future__ import annotations

import json
import platform
import sys

# Loading a kernel is what chooses its twin, and this module loads them all.
import tidelog.wire.records  # noqa: F401
from tidelog import kernel_choice


def print_version(version: str, *, as_json: bool) -> None:
    """Which Tidelog, which Python, and for each kernel whether it is compiled and, if not, why not."""
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
