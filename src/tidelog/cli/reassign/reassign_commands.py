"""`tidelog reassign` as it is typed. What it does is in the modules that each command imports when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.command_group import INT16_MAX, command_group, exit_with
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A plan, also kafka-reassign-partitions'; - for stdin.")
]
OptionalFileArgument = Annotated[str | None, typer.Argument(metavar="[FILE]", help="Only what this plan names.")]

app = command_group("Move partitions to other brokers of any Kafka cluster.")


@app.command()
def plan(
    topics: Annotated[
        list[str] | None,
        typer.Option("--topic", metavar="NAME", help="Only this topic. May be given several times."),
    ] = None,
    brokers: Annotated[
        list[int] | None,
        typer.Option("--broker", metavar="ID", help="Only this broker and others so named; else all that serve."),
    ] = None,
    without: Annotated[
        list[int] | None,
        typer.Option("--without", metavar="ID", help="Not this broker: it is to go. May be given several times."),
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(help="How many replicas each is to have; else as many as it has.", min=1, max=INT16_MAX),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Show where replicas should go now that brokers have come, or are to go. As few as possible move. Nothing is done."""
    from tidelog.cli.reassign.reassign import PlanOptions, plan_reassignment  # noqa: PLC0415

    options = PlanOptions(topics or (), brokers or (), without or (), replication_factor)
    exit_with(lambda: plan_reassignment(bootstrap, options, as_json=as_json))


@app.command()
def apply(
    path: FileArgument,
    throttle: Annotated[
        int | None,
        typer.Option("--throttle", metavar="BYTES", help="So many a second, for each broker and direction.", min=1),
    ] = None,
    waits: Annotated[bool, typer.Option("--wait", help="Wait until it is done, then take throttles away.")] = False,
    rollback: Annotated[
        str | None, typer.Option("--rollback", metavar="FILE", help="Write there what the replicas are now.")
    ] = None,
    keeps_factor: Annotated[
        bool, typer.Option("--keep-replication-factor", help="Refuse another number of replicas.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Begin what a plan says."""
    from tidelog.cli.reassign.reassign import ApplyOptions, apply_assignment  # noqa: PLC0415

    options = ApplyOptions(throttle, waits, rollback, keeps_factor)
    exit_with(lambda: apply_assignment(bootstrap, path, options, as_json=as_json))


@app.command()
def status(
    path: OptionalFileArgument = None,
    clears_throttles: Annotated[
        bool, typer.Option("--clear-throttles", help="Take throttles away, once nothing is under way.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Show what is under way, and how much of it has arrived."""
    from tidelog.cli.reassign.reassign import show_reassignments  # noqa: PLC0415

    exit_with(lambda: show_reassignments(bootstrap, path, clears_throttles=clears_throttles, as_json=as_json))


@app.command()
def cancel(
    path: OptionalFileArgument = None,
    cancels_all: Annotated[bool, typer.Option("--all", help="Everything that is under way.")] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Take back what is under way: the replicas are again those from before."""
    from tidelog.cli.reassign.reassign import cancel_reassignments  # noqa: PLC0415

    exit_with(lambda: cancel_reassignments(bootstrap, path, cancels_all=cancels_all, as_json=as_json))
