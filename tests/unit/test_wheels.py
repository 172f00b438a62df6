"""Which interpreters `make wheels` builds for."""

from __future__ import annotations

import json
from pathlib import Path

from tools.wheels import _interpreters


def interpreter(folder: Path, name: str, version: tuple[int, int, int], **differs: object) -> str:
    """A program that answers as a Python would."""
    answer = {
        "implementation": "CPython",
        "version": version,
        "is_free_threaded": False,
        "has_headers": True,
        **differs,
    }
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{json.dumps(answer)}'\n")
    path.chmod(0o755)
    return str(path)


def test_the_newest_of_each_minor_version_from_3_11_on(tmp_path: Path) -> None:
    old = interpreter(tmp_path, "old", (3, 10, 13))
    first = interpreter(tmp_path, "first", (3, 11, 2))
    later = interpreter(tmp_path, "later", (3, 11, 7))
    next_minor = interpreter(tmp_path, "next", (3, 12, 1))

    assert _interpreters([next_minor, old, later, first]) == {(3, 11, 7): later, (3, 12, 1): next_minor}


def test_what_cannot_build_a_wheel_of_ours_is_left_out(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\nexit 127\n")
    broken.chmod(0o755)
    others = [
        str(broken),
        interpreter(tmp_path, "pypy", (3, 11, 9), implementation="PyPy"),
        interpreter(tmp_path, "bare", (3, 12, 1), has_headers=False),
        interpreter(tmp_path, "threaded", (3, 13, 0), is_free_threaded=True),
    ]

    assert _interpreters(others) == {}
