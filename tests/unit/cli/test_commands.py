"""The table of commands, and what their modules declare."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest
import typer

import tidelog.cli
from tidelog.cli.commands import COMMANDS, GROUPS, command_line


def declaring_modules() -> set[str]:
    """Those that are named as such, wherever they are."""
    found = pkgutil.walk_packages(tidelog.cli.__path__, "tidelog.cli.")
    return {each.name for each in found if each.name.endswith("_commands")}


def test_every_module_of_commands_is_in_the_table() -> None:
    assert declaring_modules() == {*COMMANDS.values(), *GROUPS.values()}


@pytest.mark.parametrize("module", sorted(set(COMMANDS.values())))
def test_the_table_names_all_that_a_module_declares(module: str) -> None:
    app: typer.Typer = import_module(module).app

    assert [each.name for each in app.registered_commands] == [name for name in COMMANDS if COMMANDS[name] == module]


@pytest.mark.parametrize("name", [*COMMANDS, *GROUPS])
def test_a_word_of_the_table_gets_a_command_line_of_its_own(name: str) -> None:
    narrow = command_line(name)

    commands = [each.name for each in narrow.registered_commands]
    groups = [each.name for each in narrow.registered_groups]
    assert commands + groups == [name]
