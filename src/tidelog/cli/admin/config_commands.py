"""`tidelog configs` as it is typed. What it does is in the modules that each command imports when it runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tidelog.cli.command_group import command_group, exit_with
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption

ResourceArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A topic, the number of a broker, or `default` for all brokers.")
]


class Kind(StrEnum):
    TOPIC = "topic"
    BROKER = "broker"


KindArgument = Annotated[Kind, typer.Argument(help="What has the configuration.")]

app = command_group("Show and change the configuration of topics and brokers of any Kafka cluster.")


@app.command()
def show(
    kind: KindArgument,
    name: ResourceArgument,
    shows_all: Annotated[bool, typer.Option("--all", help="Also what has its default.")] = False,
    documented: Annotated[bool, typer.Option("--docs", help="Also what each key means.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Show what is configured."""
    from tidelog.cli.admin.configs import show_configs  # noqa: PLC0415

    exit_with(lambda: show_configs(bootstrap, kind, name, shows_all=shows_all, documented=documented, as_json=as_json))


@app.command("set")
def set_(
    kind: KindArgument,
    name: ResourceArgument,
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Set keys, all or none."""
    from tidelog.cli.admin.configs import change_configs  # noqa: PLC0415

    exit_with(lambda: change_configs(bootstrap, kind, name, settings=settings))


@app.command()
def unset(
    kind: KindArgument,
    name: ResourceArgument,
    keys: Annotated[list[str], typer.Argument(metavar="KEY...")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Give keys back to their defaults."""
    from tidelog.cli.admin.configs import change_configs  # noqa: PLC0415

    exit_with(lambda: change_configs(bootstrap, kind, name, removed=keys))
