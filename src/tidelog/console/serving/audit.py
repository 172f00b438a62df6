"""What was changed through the console: who, when, what, and what came of it. Never a value, never a password.

In memory the newest, for the screen; all of it as JSON lines in a file (`--audit-file`), or on standard error.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidelog.console.serving.answers import json_bytes

ENTRIES_MAX = 500


class Audit:
    def __init__(self, path: str | None) -> None:
        self._entries: deque[Mapping[str, Any]] = deque(maxlen=ENTRIES_MAX)
        # Others on the machine have no business with who changed what.
        self._file = (
            None if path is None else os.open(Path(path), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        )

    def write(
        self, *, cluster: str, user: str | None, peer: str, action: str, details: Mapping[str, Any], result: str
    ) -> None:
        entry = {
            "at_ms": int(time.time() * 1000),
            "cluster": cluster,
            "user": user,
            "from": peer,
            "action": action,
            "what": " ".join(f"{name}={_word(value)}" for name, value in details.items()),
            "result": result,
        }
        self._entries.append(entry)
        line = json_bytes(entry) + b"\n"
        if self._file is not None:
            os.write(self._file, line)
        else:
            sys.stderr.write(f"audit: {line.decode()}")
            sys.stderr.flush()

    def newest(self, clusters: Mapping[str, str | None]) -> list[Mapping[str, Any]]:
        """Of these clusters, the newest first: all of a cluster, or what one user has changed."""
        return [
            each
            for each in reversed(self._entries)
            if each["cluster"] in clusters and clusters[each["cluster"]] in {None, each["user"]}
        ]

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _word(value: object) -> str:
    return value if isinstance(value, str) and value.isprintable() and " " not in value else json_bytes(value).decode()
