"""`tidelog reassign`: partitions to other brokers. A plan, which is a file; carrying it out; how far it is; taking it back.

    tidelog reassign plan --without 3 --json > plan.json
    tidelog reassign apply plan.json --throttle 50000000 --wait
    tidelog reassign status
    tidelog reassign cancel --all

Files are those of `kafka-reassign-partitions`, either way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.cli.admin_session import (
    QuestionError,
    RefusalError,
    administer,
    comma_separated,
    complain_later,
    print_json,
    print_line,
    print_table,
)
from tidelog.cli.reassign.assignment_file import as_json as assignment_as_json, read_assignment
from tidelog.cli.reassign.reassignment_plan import Place, PlanError, PlannedBroker, Replicas, plan_replicas
from tidelog.cli.reassign.reassignment_throttles import change_throttles, clear_throttles, set_throttles
from tidelog.cli.rendering import Json, json_line
from tidelog.client.admin import AsyncAdmin, PartitionReassignment, value_of
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError

_COMMAND = "reassign"

# A reassignment takes seconds to hours.
POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class PlanOptions:
    topics: Sequence[str] = ()
    """Only these; all without."""
    brokers: Sequence[int] = ()
    """Exactly these; all that serve without."""
    without: Sequence[int] = ()
    replication_factor: int | None = None


# --- plan ------------------------------------------------------------------------------------------------------------------


def plan_reassignment(bootstrap: str, options: PlanOptions, *, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        brokers, left_out = await _brokers(admin, options)
        current = await _replicas(admin, options.topics)
        under_way = await admin.list_partition_reassignments()
        for place, reassignment in under_way.items():
            if place in current:
                current[place] = reassignment.target_replicas
        try:
            plan = plan_replicas(current, brokers, replication_factor=options.replication_factor)
        except PlanError as error:
            raise QuestionError(str(error)) from error
        if as_json:
            # Kafka's tool reads over what it does not know.
            print_json([assignment_as_json(plan) | ({"fenced_brokers": [*left_out]} if left_out else {})])
            return
        for broker in left_out:
            print_line(f"broker {broker} is fenced: the plan does without it; start it first where it is to stay")
        if not plan:
            print_line("nothing is to be done: the replicas are where they belong")
            return
        rows = [
            (topic, index, comma_separated(current[topic, index]), comma_separated(to))
            for (topic, index), to in plan.items()
        ]
        print_table(["topic", "partition", "from", "to"], rows)
        moving = {place: len(set(to) - set(current[place])) for place, to in plan.items()}
        sizes = await _sizes(admin, [place for place, count in moving.items() if count])
        total = sum(max(sizes.get(place, {0: 0}).values()) * count for place, count in moving.items() if count)
        print_line(
            f"{len(plan)} partitions change, {sum(moving.values())} replicas with {_amount(total)} are copied; "
            "--json prints it as a file for `tidelog reassign apply`"
        )

    return administer(_COMMAND, bootstrap, work)


async def _brokers(admin: AsyncAdmin, options: PlanOptions) -> tuple[list[PlannedBroker], list[int]]:
    """The brokers that a plan may use, and those that it does without although nobody said so."""
    known = {each.node_id: each for each in (await admin.describe_cluster(include_fenced_brokers=True)).brokers}
    for named in (*options.brokers, *options.without):
        if named not in known:
            raise QuestionError(f"there is no broker {named}: there are {comma_separated(sorted(known))}")
    fenced = (
        []
        if options.brokers
        else [node for node, each in known.items() if each.is_fenced and node not in options.without]
    )
    wanted = options.brokers or [node for node in known if node not in fenced]
    chosen = sorted({*wanted} - {*options.without})
    if not chosen:
        raise QuestionError("no broker is left to have replicas")
    return [PlannedBroker(node, known[node].rack) for node in chosen], fenced


async def _replicas(admin: AsyncAdmin, topics: Sequence[str] = ()) -> dict[Place, Replicas]:
    """Which replicas partitions have now."""
    described = await admin.describe_topics(topics or None)
    return {
        TopicPartition(topic.name, partition.index): partition.replicas
        for topic in map(value_of, described.values())
        for partition in topic.partitions
    }


# --- apply -----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    throttle: int | None = None
    """Bytes a second."""
    waits: bool = False
    rollback: str | None = None
    """Where to write the way back."""
    keeps_factor: bool = False


def apply_assignment(bootstrap: str, path: str, options: ApplyOptions, *, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        target = read_assignment(path)
        if not target:
            _tell([], "begun", as_json=as_json)
            return
        current = await _known(admin, target)
        if options.rollback is not None:
            _write(options.rollback, current)
        before = None
        if options.throttle is not None:
            before = await set_throttles(admin, current, target, options.throttle)
        outcomes = await admin.alter_partition_reassignments(
            target, allow_replication_factor_change=not options.keeps_factor
        )
        begun = [place for place, outcome in outcomes.items() if outcome is None]
        if options.waits:
            await _until_done(admin, begun)
            if before is not None:
                await change_throttles(admin, before)
        _tell(begun, "reassigned" if options.waits else "begun", as_json=as_json)
        complain_later([outcome for outcome in outcomes.values() if outcome is not None])

    return administer(_COMMAND, bootstrap, work)


async def _known(admin: AsyncAdmin, target: Mapping[Place, Replicas]) -> dict[Place, Replicas]:
    """What the partitions of a file have now. RefusalError where one is not there."""
    current = await _replicas(admin, sorted({topic for topic, _ in target}))
    for topic, index in target:
        if (topic, index) not in current:
            raise RefusalError(f"topic {topic} has no partition {index}")
    return {place: current[place] for place in target}


def _write(path: str, assignment: Mapping[Place, Replicas]) -> None:
    try:
        Path(path).write_text(json_line(assignment_as_json(assignment)) + "\n", encoding="utf-8")
    except OSError as error:
        raise QuestionError(f"{path} cannot be written: {error.strerror}") from error


async def _until_done(admin: AsyncAdmin, places: Sequence[Place]) -> None:
    while places and await admin.list_partition_reassignments(places):  # noqa: ASYNC110 - nobody tells when it is done
        await asyncio.sleep(POLL_S)


def _tell(places: Iterable[Place], state: str, *, as_json: bool) -> None:
    places = sorted(places)
    if as_json:
        print_json({"topic": topic, "partition": index, "state": state} for topic, index in places)
    else:
        print_line(f"{len(places)} partitions: {state}" if places else "no partition has changed")


# --- status ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a partition is: by how many bytes each replica that is to come has of what the largest has."""

    place: Place
    reassignment: PartitionReassignment
    arrived: Mapping[int, float]

    @property
    def text(self) -> str:
        return " ".join(f"{node}:{share:.0%}" for node, share in self.arrived.items()) or "-"


def show_reassignments(bootstrap: str, path: str | None, *, clears_throttles: bool, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        target = None if path is None else read_assignment(path)
        under_way = await admin.list_partition_reassignments(target)
        progress = await _progress(admin, under_way)
        if as_json:
            print_json(map(_progress_as_json, progress))
        elif progress:
            rows = [
                (
                    *each.place,
                    comma_separated(each.reassignment.target_replicas),
                    comma_separated(each.reassignment.adding_replicas),
                    comma_separated(each.reassignment.removing_replicas),
                    each.text,
                )
                for each in progress
            ]
            print_table(["topic", "partition", "to", "adds", "removes", "arrived"], rows)
        else:
            print_line("no partition is being reassigned")
        if clears_throttles:
            if under_way:
                raise RefusalError("throttles stay while partitions are being reassigned")
            await clear_throttles(admin, {topic for topic, _ in target or await _replicas(admin)})
        if target is not None and not under_way:
            _check_result(await _known(admin, target), target)

    return administer(_COMMAND, bootstrap, work)


def _check_result(current: Mapping[Place, Replicas], target: Mapping[Place, Replicas]) -> None:
    others = [f"{topic}-{index}" for (topic, index), to in target.items() if current[topic, index] != to]
    if others:
        raise RefusalError(f"{', '.join(others)} have other replicas than the file says, and are not on their way")


async def _progress(admin: AsyncAdmin, under_way: Mapping[TopicPartition, PartitionReassignment]) -> list[Progress]:
    sizes = await _sizes(admin, under_way)
    found = []
    for place, reassignment in sorted(under_way.items()):
        held = sizes.get(place, {})
        most = max(held.values(), default=0)
        arrived = {node: held.get(node, 0) / most if most else 1.0 for node in reassignment.adding_replicas}
        found.append(Progress(place, reassignment, arrived))
    return found


def _progress_as_json(progress: Progress) -> dict[str, Json]:
    topic, index = progress.place
    reassignment = progress.reassignment
    return {
        "topic": topic,
        "partition": index,
        "replicas": list(reassignment.replicas),
        "target": list(reassignment.target_replicas),
        "adding": list(reassignment.adding_replicas),
        "removing": list(reassignment.removing_replicas),
        "arrived": {str(node): round(share, 4) for node, share in progress.arrived.items()},
    }


async def _sizes(admin: AsyncAdmin, places: Iterable[Place]) -> dict[Place, dict[int, int]]:
    """How many bytes each broker has of partitions. A broker that does not answer has none."""
    wanted = list(places)
    sizes: dict[Place, dict[int, int]] = {}
    if wanted:
        for node, directories in (await admin.describe_log_dirs(partitions=wanted)).items():
            for directory in {} if isinstance(directories, ClientError) else directories.values():
                for place, replica in directory.replicas.items():
                    if not replica.is_future:
                        sizes.setdefault(place, {})[node] = replica.size_bytes
    return sizes


# --- cancel ----------------------------------------------------------------------------------------------------------------


def cancel_reassignments(bootstrap: str, path: str | None, *, cancels_all: bool, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        if (path is None) != cancels_all:
            raise QuestionError("name the file that was applied, or --all")
        asked = None if path is None else read_assignment(path)
        under_way = await admin.list_partition_reassignments(asked)
        outcomes = await admin.alter_partition_reassignments(dict.fromkeys(under_way)) if under_way else {}
        if outcomes and not await admin.list_partition_reassignments():
            await clear_throttles(admin, [topic for topic, _ in under_way])
        cancelled = [place for place, outcome in outcomes.items() if outcome is None]
        if as_json or cancelled:
            _tell(cancelled, "cancelled", as_json=as_json)
        else:
            print_line("no partition is being reassigned")
        complain_later([outcome for outcome in outcomes.values() if outcome is not None])

    return administer(_COMMAND, bootstrap, work)


def _amount(count: int) -> str:
    """Bytes as a person reads them."""
    amount, units = float(count), ["bytes", "KB", "MB", "GB", "TB"]
    while amount >= 1000 and len(units) > 1:
        amount /= 1000
        units.pop(0)
    return f"{count} bytes" if units[0] == "bytes" else f"{amount:.1f} {units[0]}"
