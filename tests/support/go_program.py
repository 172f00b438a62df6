"""Programs in Go, built from the module in `tests/compat/franz`, which names the versions that they use."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.apache_kafka import REPOSITORY, MissingProgramError, require

SOURCE = REPOSITORY / "tests" / "compat" / "franz"
BUILD_TIMEOUT_S = 600.0


def built(place: Path, *arguments: str) -> Path:
    """The program that `go <arguments>` builds in the module; the test fails, or the run ends, where it cannot be built."""
    try:
        go = require("go", "golang-go")
    except MissingProgramError as error:
        pytest.exit(str(error), returncode=1)
    # Built from a copy: the build may not write into the repository.
    source = place / "source"
    shutil.copytree(SOURCE, source)
    program = place / "program"
    done = subprocess.run(
        [go, arguments[0], "-o", str(program), *arguments[1:]],
        cwd=source,
        capture_output=True,
        text=True,
        timeout=BUILD_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        pytest.fail(f"the Go program was not built; it needs the Go that {SOURCE / 'go.mod'} names:\n{done.stderr}")
    return program
