"""`tidelog groups` as it is typed. What it does is in the modules that each command imports when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.command_group import command_group, exit_with
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption

GroupsArgument = Annotated[list[str], typer.Argument(metavar="GROUP")]

app = command_group("List and describe the groups of any Kafka cluster, and change how far they are.")


@app.command("list")
def list_(
    states: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="Only groups in this state, as Empty.")
    ] = None,
    types: Annotated[
        list[str] | None, typer.Option("--type", metavar="TYPE", help="Only groups of this type, as classic.")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """List all groups."""
    from tidelog.cli.groups.groups import list_groups  # noqa: PLC0415

    exit_with(lambda: list_groups(bootstrap, states=states or (), types=types or (), as_json=as_json))


@app.command()
def describe(
    names: GroupsArgument, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False
) -> None:
    """Show the members of groups, and which partitions each has."""
    from tidelog.cli.groups.groups import describe_groups  # noqa: PLC0415

    exit_with(lambda: describe_groups(bootstrap, names, as_json=as_json))


@app.command()
def lag(
    names: Annotated[list[str] | None, typer.Argument(metavar="GROUP")] = None,
    all_groups: Annotated[bool, typer.Option("--all", help="All groups.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Show what groups have committed, and how far that is from the end; of share groups what they have not settled."""
    from tidelog.cli.groups.groups import show_lag  # noqa: PLC0415

    exit_with(lambda: show_lag(bootstrap, names or (), all_groups=all_groups, as_json=as_json))


@app.command("reset-offsets")
def reset_offsets_(
    name: Annotated[str, typer.Argument(metavar="GROUP")],
    topics: Annotated[
        list[str] | None,
        typer.Argument(metavar="TOPIC[:PARTITION,...]", help="All partitions of a topic, or some."),
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="Everything that the group has committed.")] = False,
    to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record that is there.")] = False,
    to_latest: Annotated[bool, typer.Option("--to-latest", help="To the end: only what comes from now on.")] = False,
    to_time: Annotated[
        str | None,
        typer.Option("--to-time", metavar="TIME", help="As 2026-11-16T08:00:00Z, milliseconds since 1970, or -1h ago."),
    ] = None,
    by_duration: Annotated[
        str | None, typer.Option("--by-duration", metavar="DURATION", help="So long ago: PT1H30M, 90m or 7d.")
    ] = None,
    shift_by: Annotated[
        int | None,
        typer.Option("--shift-by", metavar="N", help="So many records on, or back where negative."),
    ] = None,
    to_offset: Annotated[
        int | None, typer.Option("--to-offset", metavar="N", help="To this offset in every partition.", min=0)
    ] = None,
    from_file: Annotated[
        str | None,
        typer.Option("--from-file", metavar="FILE", help="CSV (topic,partition,offset) or JSON, as --json prints it."),
    ] = None,
    share: Annotated[
        bool, typer.Option("--share", help="Make a share group, where there is no group of that name yet.")
    ] = False,
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Else the plan is shown.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Have a group without members go on elsewhere. Shows the plan; --execute carries it out.

    An offset that the log does not hold becomes the nearest one that it does.
    """
    from tidelog.cli.groups.reset_offsets import ResetOptions, reset_offsets  # noqa: PLC0415

    options = ResetOptions(
        topics or (),
        all_topics,
        to_earliest,
        to_latest,
        to_time,
        by_duration,
        shift_by,
        to_offset,
        from_file,
        share,
        execute,
        as_json,
    )
    exit_with(lambda: reset_offsets(bootstrap, name, options))


@app.command("delete-offsets")
def delete_offsets_(
    name: Annotated[str, typer.Argument(metavar="GROUP")],
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Have a group forget how far it is in topics that none of its members reads."""
    from tidelog.cli.groups.groups import delete_offsets  # noqa: PLC0415

    exit_with(lambda: delete_offsets(bootstrap, name, topics))


@app.command()
def delete(names: GroupsArgument, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
    """Delete groups without members, and all that they have committed."""
    from tidelog.cli.groups.groups import delete_groups  # noqa: PLC0415

    exit_with(lambda: delete_groups(bootstrap, names))
