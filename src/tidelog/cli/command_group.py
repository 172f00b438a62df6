"""What commands are declared with: a group of them, how one runs, and the bounds of numbers on the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import typer

from tidelog.cli.cluster_command import ClusterGroup
from tidelog.cli.exit_code import exit_code_of

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


def command_group(help_text: str) -> typer.Typer:
    """For commands that are typed after a word of their own, as in `tidelog topics list`."""
    return typer.Typer(cls=ClusterGroup, help=help_text, no_args_is_help=True, rich_markup_mode=None)


def exit_with(command: Callable[[], int]) -> NoReturn:
    """Run a command that may print a lot, and exit with its code."""
    raise typer.Exit(exit_code_of(command))
