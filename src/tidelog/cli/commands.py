"""The command line as it is typed: which commands there are, and where each is declared.

A command line knows each option of each command that it has, which takes longer than most commands do. So it is made for the
word that it begins with, and imports only where that word is declared; all of it is for `--help` and for words that are none.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Annotated

import typer

from tidelog import __version__
from tidelog.cli.cluster_command import ClusterCommand, ClusterGroup

# In the order in which `--help` lists them: first the commands, each with the module whose `app` has it.
COMMANDS = {
    "version": "tidelog.cli.version_commands",
    "dump-log": "tidelog.cli.files.file_commands",
    "verify": "tidelog.cli.files.file_commands",
    "broker": "tidelog.cli.node.node_commands",
    "up": "tidelog.cli.node.node_commands",
    "format": "tidelog.cli.node.node_commands",
    "produce": "tidelog.cli.records.record_commands",
    "consume": "tidelog.cli.records.record_commands",
    "xray": "tidelog.cli.xray.xray_commands",
    "console": "tidelog.cli.console.console_commands",
}
# Then the groups of commands, each with the module whose `app` it is.
GROUPS = {
    "profile": "tidelog.cli.profile_commands",
    "topics": "tidelog.cli.admin.topic_commands",
    "configs": "tidelog.cli.admin.config_commands",
    "quotas": "tidelog.cli.admin.quota_commands",
    "cluster": "tidelog.cli.admin.cluster_commands",
    "acls": "tidelog.cli.admin.acl_commands",
    "groups": "tidelog.cli.groups.group_commands",
    "transactions": "tidelog.cli.transactions.transaction_commands",
    "users": "tidelog.cli.users.user_commands",
    "tokens": "tidelog.cli.users.token_commands",
    "reassign": "tidelog.cli.reassign.reassign_commands",
    "pipeline": "tidelog.cli.pipeline.pipeline_commands",
}


def command_line(name: str | None) -> typer.Typer:
    """What reads a command line that begins with this word: all there is to a command of that name, or else all commands."""
    return _command_line((name,)) if name in COMMANDS or name in GROUPS else all_commands()


@cache
def all_commands() -> typer.Typer:
    return _command_line((*COMMANDS, *GROUPS))


def _command_line(names: tuple[str, ...]) -> typer.Typer:
    app = typer.Typer(
        name="tidelog",
        cls=ClusterGroup,
        help="A distributed commit log that speaks Apache Kafka's protocol and keeps Apache Kafka's files.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    # It also keeps the commands subcommands, however many there are.
    app.callback()(_tidelog)
    for name in names:
        if name in GROUPS:
            app.add_typer(_declared(GROUPS[name]), name=name)
        else:
            declared = _declared(COMMANDS[name]).registered_commands
            app.registered_commands += [each for each in declared if each.name == name]
    return app


def _declared(module: str) -> typer.Typer:
    app: typer.Typer = import_module(module).app
    for command in app.registered_commands:
        command.cls = ClusterCommand
    return app


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"tidelog {__version__}")
        raise typer.Exit


def _tidelog(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say which Tidelog this is.")
    ] = False,
) -> None:
    pass
