"""`tidelog topics` as it is typed. What it does is in the modules that each command imports when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.command_group import INT16_MAX, INT32_MAX, command_group, exit_with
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption

NameArgument = Annotated[str, typer.Argument(metavar="NAME")]
NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME...")]

app = command_group("List, describe, create and delete topics of any Kafka cluster.")


@app.command("list")
def list_(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """List all topics."""
    from tidelog.cli.admin.topics import list_topics  # noqa: PLC0415

    exit_with(lambda: list_topics(bootstrap, as_json=as_json))


@app.command()
def describe(names: NamesArgument, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """Show the partitions of topics, and what they have configured."""
    from tidelog.cli.admin.topics import describe_topics  # noqa: PLC0415

    exit_with(lambda: describe_topics(bootstrap, names, as_json=as_json))


@app.command()
def create(
    name: NameArgument,
    partitions: Annotated[
        int | None, typer.Option(help="How many; without it what the cluster gives.", min=1, max=INT32_MAX)
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(help="How many replicas each has; without it what the cluster gives.", min=1, max=INT16_MAX),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="A configuration key of the topic.")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="One that exists is no error.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Create a topic."""
    from tidelog.cli.admin.topics import create_topic  # noqa: PLC0415

    exit_with(
        lambda: create_topic(
            bootstrap,
            name,
            partitions=partitions,
            replication_factor=replication_factor,
            settings=settings or (),
            if_not_exists=if_not_exists,
        )
    )


@app.command()
def delete(
    names: NamesArgument,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="One that does not exist is no error.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Delete topics with all their records."""
    from tidelog.cli.admin.topics import delete_topics  # noqa: PLC0415

    exit_with(lambda: delete_topics(bootstrap, names, if_exists=if_exists))


@app.command("add-partitions")
def add_partitions_(
    name: NameArgument,
    total: Annotated[int, typer.Option(help="How many the topic is to have then.", min=1, max=INT32_MAX)],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Give a topic more partitions. Records stay where they are, but keys may go elsewhere from then on."""
    from tidelog.cli.admin.topics import add_partitions  # noqa: PLC0415

    exit_with(lambda: add_partitions(bootstrap, name, total=total))
