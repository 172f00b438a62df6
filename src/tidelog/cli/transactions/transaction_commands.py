"""`tidelog transactions` as it is typed. What it does is in the modules that each command imports when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.command_group import INT16_MAX, INT32_MAX, INT64_MAX, command_group, exit_with
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption

IdArgument = Annotated[str, typer.Argument(metavar="TRANSACTIONAL_ID")]
ProducerIdOption = Annotated[
    int | None, typer.Option(help="The producer of the transaction that is meant.", min=0, max=INT64_MAX)
]
ProducerEpochOption = Annotated[int | None, typer.Option(help="Its epoch.", min=0, max=INT16_MAX)]
PreparedOption = Annotated[
    str | None,
    typer.Option(
        "--prepared", metavar="ID:EPOCH:TRANSACTIONAL_ID", help="The same as it was recorded when it was prepared."
    ),
]

app = command_group("List, describe and end transactions of any Kafka cluster.")


@app.command("list")
def list_(
    states: Annotated[
        list[str] | None, typer.Option("--state", help="Only those in this state, such as Ongoing.")
    ] = None,
    producer_ids: Annotated[
        list[int] | None, typer.Option("--producer-id", help="Only those of this producer.", min=0, max=INT64_MAX)
    ] = None,
    longer_than_ms: Annotated[
        int | None,
        typer.Option("--longer-than-ms", help="Only those that are open for longer.", min=0, max=INT64_MAX),
    ] = None,
    pattern: Annotated[
        str | None, typer.Option("--pattern", metavar="RE2", help="Only those whose whole id matches.")
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """List transactional ids, and what each is at."""
    from tidelog.cli.transactions.transactions import list_transactions  # noqa: PLC0415

    exit_with(
        lambda: list_transactions(
            bootstrap,
            states=states or (),
            producer_ids=producer_ids or (),
            longer_than_ms=longer_than_ms,
            pattern=pattern,
            as_json=as_json,
        )
    )


@app.command()
def describe(
    names: Annotated[list[str], typer.Argument(metavar="TRANSACTIONAL_ID...")],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Show the producer, the state and the partitions of transactional ids."""
    from tidelog.cli.transactions.transactions import describe_transactions  # noqa: PLC0415

    exit_with(lambda: describe_transactions(bootstrap, names, as_json=as_json))


@app.command()
def commit(
    name: IdArgument,
    producer_id: ProducerIdOption = None,
    producer_epoch: ProducerEpochOption = None,
    prepared: PreparedOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Commit a transaction, such as a prepared one whose producer is gone.

    Without a producer it is the one that is open now, whoever has it: right for a prepared one, and for nothing else.
    """
    from tidelog.cli.transactions.transactions import end_transaction  # noqa: PLC0415

    exit_with(
        lambda: end_transaction(
            bootstrap,
            name,
            commit=True,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            prepared=prepared,
        )
    )


@app.command()
def abort(
    name: Annotated[str | None, typer.Argument(metavar="TRANSACTIONAL_ID")] = None,
    producer_id: ProducerIdOption = None,
    producer_epoch: ProducerEpochOption = None,
    prepared: PreparedOption = None,
    topic: Annotated[str | None, typer.Option(help="Of a hanging transaction, instead of an id.")] = None,
    partition: Annotated[int | None, typer.Option(help="Its partition.", min=0, max=INT32_MAX)] = None,
    start_offset: Annotated[int | None, typer.Option(help="Where it begins.", min=0, max=INT64_MAX)] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Abort a transaction; or a hanging one, by --topic, --partition and --start-offset as `find-hanging` shows them."""
    from tidelog.cli.admin_session import EXIT_WRONG_QUESTION, complain  # noqa: PLC0415
    from tidelog.cli.transactions.transactions import abort_hanging, end_transaction  # noqa: PLC0415

    if name is not None and topic is None and partition is None and start_offset is None:
        exit_with(
            lambda: end_transaction(
                bootstrap,
                name,
                commit=False,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                prepared=prepared,
            )
        )
    if (
        name is None
        and topic is not None
        and partition is not None
        and start_offset is not None
        and (producer_id, producer_epoch, prepared) == (None, None, None)
    ):
        exit_with(lambda: abort_hanging(bootstrap, topic=topic, partition=partition, start_offset=start_offset))
    sentence = "name a transactional id, or a hanging transaction by --topic, --partition and --start-offset"
    exit_with(lambda: complain("transactions", sentence, EXIT_WRONG_QUESTION))


@app.command("find-hanging")
def find_hanging_(
    topic: Annotated[str | None, typer.Option(help="Only in this topic.")] = None,
    partition: Annotated[int | None, typer.Option(help="Only in this partition.", min=0, max=INT32_MAX)] = None,
    broker: Annotated[int | None, typer.Option(help="Only on this broker, as it sees them.", min=0)] = None,
    max_transaction_timeout: Annotated[
        int, typer.Option(metavar="MINUTES", help="What is open for longer has nobody to end it.", min=0)
    ] = 15,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Find transactions that a partition waits for and no coordinator knows."""
    from tidelog.cli.transactions.transactions import find_hanging  # noqa: PLC0415

    exit_with(
        lambda: find_hanging(
            bootstrap,
            topic=topic,
            partition=partition,
            broker_id=broker,
            max_transaction_timeout_minutes=max_transaction_timeout,
            as_json=as_json,
        )
    )
