"""`tidelog profile` as it is typed. What it does is in `profile_work`, which each command imports when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.command_group import command_group, exit_with
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption

NameArgument = Annotated[str, typer.Argument(metavar="NAME")]

app = command_group("Keep clusters and their logins under names, and choose the one that commands talk to.")


@app.command()
def create(
    name: NameArgument,
    overwrites: Annotated[bool, typer.Option("--force", help="Write over a profile of this name.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Keep --bootstrap, and what --command-config and -X say, in a file that only you can read."""
    from tidelog.cli.profile_work import create_profile  # noqa: PLC0415

    exit_with(lambda: create_profile(name, bootstrap, overwrites=overwrites))


@app.command()
def use(name: NameArgument) -> None:
    """Have all commands talk to this cluster, unless --bootstrap or --command-config is given."""
    from tidelog.cli.profile_work import use_profile  # noqa: PLC0415

    exit_with(lambda: use_profile(name))


@app.command("list")
def list_(as_json: JsonOption = False) -> None:
    """List the profiles, and which one is in use."""
    from tidelog.cli.profile_work import list_profiles  # noqa: PLC0415

    exit_with(lambda: list_profiles(as_json=as_json))


@app.command()
def show(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="Else the one in use.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a profile says, without its secrets."""
    from tidelog.cli.profile_work import show_profile  # noqa: PLC0415

    exit_with(lambda: show_profile(name, as_json=as_json))


@app.command()
def delete(name: NameArgument) -> None:
    """Delete a profile."""
    from tidelog.cli.profile_work import delete_profile  # noqa: PLC0415

    exit_with(lambda: delete_profile(name))
