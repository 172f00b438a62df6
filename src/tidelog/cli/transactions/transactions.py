"""`tidelog transactions`: list and describe them, end one from outside, and find those that hang."""

from __future__ import annotations

import time
from collections.abc import Sequence

from tidelog.cli.admin_session import (
    QuestionError,
    RefusalError,
    administer,
    complain_later,
    print_json,
    print_line,
    print_table,
)
from tidelog.cli.rendering import Json, time_as_text
from tidelog.client.admin import AsyncAdmin, OpenTransaction, TransactionDescription, TransactionState
from tidelog.client.consumer.topic_partition import TopicPartition, by_topic
from tidelog.client.errors import ClientError
from tidelog.client.producer.prepared_transaction import PreparedTransaction

_COMMAND = "transactions"


def list_transactions(
    bootstrap: str,
    *,
    states: Sequence[str],
    producer_ids: Sequence[int],
    longer_than_ms: int | None,
    pattern: str | None,
    as_json: bool,
) -> int:
    async def work(admin: AsyncAdmin) -> None:
        listed = await admin.list_transactions(
            states=[_state(each) for each in states],
            producer_ids=producer_ids,
            duration_ms=longer_than_ms,
            pattern=pattern,
        )
        if as_json:
            print_json(
                {
                    "transactional_id": each.transactional_id,
                    "coordinator": each.coordinator,
                    "producer_id": each.producer_id,
                    "state": each.state,
                }
                for each in listed
            )
        elif not listed:
            print_line("there are no such transactions")
        else:
            rows = [(each.transactional_id, each.coordinator, each.producer_id, each.state) for each in listed]
            print_table(["transactional id", "coordinator", "producer id", "state"], rows)

    return administer(_COMMAND, bootstrap, work)


def describe_transactions(bootstrap: str, transactional_ids: Sequence[str], *, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        described = await admin.describe_transactions(sorted(set(transactional_ids)))
        for each in described.values():
            if isinstance(each, ClientError):
                continue
            if as_json:
                print_json([_as_json(each)])
            else:
                _print_description(each)
        complain_later([error for error in described.values() if isinstance(error, ClientError)])

    return administer(_COMMAND, bootstrap, work)


def end_transaction(
    bootstrap: str,
    transactional_id: str,
    *,
    commit: bool,
    producer_id: int | None,
    producer_epoch: int | None,
    prepared: str | None,
) -> int:
    async def work(admin: AsyncAdmin) -> None:
        recorded = _recorded(transactional_id, producer_id, producer_epoch, prepared)
        if recorded is None:
            described = await admin.describe_transaction(transactional_id)
            if described.state is not TransactionState.ONGOING:
                raise RefusalError(
                    f"transactional id {transactional_id} has no open transaction: its state is {described.state}"
                )
            recorded = PreparedTransaction(transactional_id, described.producer_id, described.producer_epoch)
        await admin.end_transaction(*recorded, commit=commit)
        print_line(f"{'committed' if commit else 'aborted'} the transaction of {transactional_id}")

    return administer(_COMMAND, bootstrap, work)


def abort_hanging(bootstrap: str, *, topic: str, partition: int, start_offset: int) -> int:
    async def work(admin: AsyncAdmin) -> None:
        found = await admin.find_open_transaction((topic, partition), start_offset)
        await admin.abort_hanging(found)
        print_line(f"aborted the transaction at offset {start_offset} of {found.partition}")

    return administer(_COMMAND, bootstrap, work)


def find_hanging(
    bootstrap: str,
    *,
    topic: str | None,
    partition: int | None,
    broker_id: int | None,
    max_transaction_timeout_minutes: int,
    as_json: bool,
) -> int:
    async def work(admin: AsyncAdmin) -> None:
        if partition is not None and topic is None:
            raise QuestionError("--partition needs --topic")
        found = await admin.find_hanging_transactions(
            topic=topic,
            partition=partition,
            broker_id=broker_id,
            max_transaction_timeout_ms=max_transaction_timeout_minutes * 60_000,
        )
        if as_json:
            print_json(map(_hanging_as_json, found))
        elif not found:
            print_line("there are no hanging transactions")
        else:
            _print_hanging(found)

    return administer(_COMMAND, bootstrap, work)


def _state(text: str) -> TransactionState:
    for state in TransactionState:
        if state.value.lower() == text.lower() and state is not TransactionState.UNKNOWN:
            return state
    known = ", ".join(state for state in TransactionState if state is not TransactionState.UNKNOWN)
    raise QuestionError(f"{text!r} is none of {known}")


def _recorded(
    transactional_id: str, producer_id: int | None, producer_epoch: int | None, prepared: str | None
) -> PreparedTransaction | None:
    """The transaction that is meant, where that was said; None for the one that is open."""
    if prepared is not None:
        if producer_id is not None or producer_epoch is not None:
            raise QuestionError("give --prepared, or --producer-id and --producer-epoch, not both")
        recorded = PreparedTransaction.parse(prepared)
        if recorded.transactional_id != transactional_id:
            raise QuestionError(
                f"--prepared is a transaction of {recorded.transactional_id}, not of {transactional_id}"
            )
        return recorded
    if (producer_id is None) != (producer_epoch is None):
        raise QuestionError("--producer-id and --producer-epoch belong together")
    if producer_id is None or producer_epoch is None:
        return None
    return PreparedTransaction(transactional_id, producer_id, producer_epoch)


def _as_json(each: TransactionDescription) -> dict[str, Json]:
    return {
        "transactional_id": each.transactional_id,
        "coordinator": each.coordinator,
        "producer_id": each.producer_id,
        "producer_epoch": each.producer_epoch,
        "state": each.state,
        "timeout_ms": each.timeout_ms,
        "start_time_ms": each.start_time_ms,
        "partitions": by_topic(each.partitions),
    }


def _print_description(each: TransactionDescription) -> None:
    started = "" if each.start_time_ms is None else f", open since {time_as_text(each.start_time_ms)}"
    print_line(f"transactional id {each.transactional_id}, {each.state}{started}")
    rows = [
        ("producer", f"{each.producer_id}, epoch {each.producer_epoch}"),
        ("coordinator", each.coordinator),
        ("time-out", f"{each.timeout_ms} ms"),
        ("partitions", _partitions(each.partitions)),
    ]
    for name, value in rows:
        print_line(f"  {name:<12} {value}")


def _partitions(partitions: Sequence[TopicPartition]) -> str:
    grouped = by_topic(partitions).items()
    return " ".join(f"{topic}:{','.join(map(str, indexes))}" for topic, indexes in grouped) or "-"


def _hanging_as_json(each: OpenTransaction) -> dict[str, Json]:
    return {
        "topic": each.partition.topic,
        "partition": each.partition.partition,
        "producer_id": each.producer.producer_id,
        "producer_epoch": each.producer.producer_epoch,
        "coordinator_epoch": each.producer.coordinator_epoch,
        "start_offset": each.producer.transaction_start_offset,
        "last_timestamp_ms": each.producer.last_timestamp_ms,
    }


def _print_hanging(found: Sequence[OpenTransaction]) -> None:
    now_ms = int(time.time() * 1000)
    rows = [
        (
            each.partition.topic,
            each.partition.partition,
            "-" if each.producer.transaction_start_offset is None else each.producer.transaction_start_offset,
            each.producer.producer_id,
            each.producer.producer_epoch,
            (now_ms - each.producer.last_timestamp_ms) // 60_000,
        )
        for each in found
    ]
    print_table(["topic", "partition", "start offset", "producer id", "epoch", "silent minutes"], rows)
    print_line("abort one with: tidelog transactions abort --topic TOPIC --partition N --start-offset N")
