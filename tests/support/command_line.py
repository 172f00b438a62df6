"""The command line, run within the test's own process."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from tidelog.cli.commands import all_commands


def tidelog(*arguments: str | Path) -> Result:
    """Run a command as a person would type it. A traceback fails the test."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    try:
        result = CliRunner().invoke(all_commands(), list(map(str, arguments)))
    finally:
        # A node's log goes to what is standard error during the command, which later tests would write to in vain.
        for handler in root.handlers[:]:
            if handler not in handlers:
                root.removeHandler(handler)
        root.setLevel(level)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result


def json_lines(result: Result) -> list[dict[str, Any]]:
    """What a command with `--json` has printed."""
    return [json.loads(line) for line in result.stdout.splitlines()]
