"""`tidelog version`."""

from __future__ import annotations

import json
import platform
import sys

from tidelog import kernel_choice


def print_version(version: str, *, as_json: bool) -> None:
    # Loading a kernel is what chooses its twin.
    import tidelog.wire.kernels  # noqa: F401, PLC0415

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
