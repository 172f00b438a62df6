"""`tidelog version`."""

from __future__ import annotations

import json
import platform
import sys

from tidelog.kernel_choice import KernelUnavailableError, choice


def print_version(version: str, *, as_json: bool) -> None:
    """Which Tidelog, which Python, whether its kernels are compiled and, if not, why not."""
    if choice.refusal:
        raise KernelUnavailableError(choice.refusal)
    python = f"{platform.python_implementation()} {platform.python_version()}"
    if as_json:
        kernels = {"twin": choice.twin, "why": choice.reason}
        json.dump({"tidelog": version, "python": python, "kernels": kernels}, sys.stdout)
        sys.stdout.write("\n")
        return
    why = f" ({choice.reason})" if choice.reason else ""
    sys.stdout.write(f"tidelog {version} on {python}\nkernels: {choice.twin}{why}\n")
