"""`tidelog xray`: where a record is and how it got there.

Of an older record files and protocol tell: batch, segment, index, epochs, replicas' ends, commits. How a record moves is told
only to those who listen while it does: with `--produce` a probe record is sent and followed. Any Kafka cluster will do; a node
that tells nothing of its inside is named as not traced.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tidelog.cli.admin_session import (
    EXIT_WRONG_QUESTION,
    QuestionError,
    RefusalError,
    administer,
    complain,
    print_json,
    print_line,
)
from tidelog.cli.cluster_login import login_settings
from tidelog.cli.xray.drawing import as_html, as_svg
from tidelog.cli.xray.listening import Listening
from tidelog.cli.xray.node_pages import NodePages
from tidelog.cli.xray.record_facts import describe_partition, facts_of, http_addresses
from tidelog.cli.xray.record_flow import events_of, is_through
from tidelog.cli.xray.xray_story import as_lines, heard_story, told_story
from tidelog.client.admin import AsyncAdmin
from tidelog.client.admin.groups import GroupState
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError
from tidelog.client.producer.async_producer import AsyncProducer
from tidelog.client.producer.options import ProducerOptions

Json = Any

_COMMAND = "xray"
_TARGET = re.compile(r"(?P<topic>[A-Za-z0-9._-]{1,249}):(?P<partition>[0-9]{1,9})(@(?P<offset>[0-9]{1,18}))?")
_TRACE = re.compile(r"(?P<node>[0-9]{1,9})=(?P<url>https?://.+)")

CLIENT_ID = "tidelog-xray"
PROBE = b"a probe of tidelog xray"
# A probe that is acknowledged is on its way through already; what is missing then has been dropped.
_THROUGH_S = 5.0
# A node has places for four listeners, and each replica is one.
GROUPS_MAX = 1
TOKEN_BYTES_MAX = 4096


class XrayOptions(NamedTuple):
    """What was typed."""

    target: str
    produce: bool = False
    probes: int = 1
    forms: tuple[str, ...] = ()
    trace: tuple[str, ...] = ()
    token_file: str | None = None
    authorities: str | None = None
    wait_s: float = 2.0


def show_xray(bootstrap: str, options: XrayOptions) -> int:
    try:
        partition, offset = _target(options)
        form = _form(options)
        given = _given(options.trace)
        token = _token(options.token_file)
    except QuestionError as error:
        return complain(_COMMAND, str(error), EXIT_WRONG_QUESTION)

    async def work(admin: AsyncAdmin) -> None:
        pages = NodePages(await http_addresses(admin, given), token, options.authorities)
        if offset is not None:
            _print(await _told(admin, pages, partition, offset), form)
        else:
            await _produce(admin, pages, partition, bootstrap, options, form)

    return administer(_COMMAND, bootstrap, work)


# --- what was typed --------------------------------------------------------------------------------------------------------


def _target(options: XrayOptions) -> tuple[TopicPartition, int | None]:
    matched = _TARGET.fullmatch(options.target)
    if matched is None:
        raise QuestionError(f"{options.target!r} names no record: expected TOPIC:PARTITION@OFFSET, as in orders:0@42")
    has_offset = matched["offset"] is not None
    if has_offset and options.produce:
        raise QuestionError("--produce makes a record of its own: leave the offset out, as in orders:0")
    if not has_offset and not options.produce:
        raise QuestionError("name an offset, as in orders:0@42, or send a probe with --produce")
    if options.probes > 1 and not options.produce:
        raise QuestionError("--count is how many probes are sent: it needs --produce")
    partition = TopicPartition(matched["topic"], int(matched["partition"]))
    return partition, int(matched["offset"]) if has_offset else None


def _form(options: XrayOptions) -> str:
    if len(options.forms) > 1:
        raise QuestionError(f"choose one of {', '.join('--' + form for form in options.forms)}")
    form = options.forms[0] if options.forms else "text"
    if form in {"svg", "html"} and options.probes > 1:
        raise QuestionError(f"--{form} draws one record: leave --count out")
    return form


def _given(texts: Sequence[str]) -> dict[int, str]:
    urls = {}
    for text in texts:
        matched = _TRACE.fullmatch(text)
        if matched is None:
            raise QuestionError(f"{text!r} is no address of a node: expected as 1=http://127.0.0.1:9404")
        urls[int(matched["node"])] = matched["url"].rstrip("/")
    return urls


def _token(path: str | None) -> str | None:
    if path is None:
        return None
    try:
        with Path(path).open("rb") as file:
            token = file.read(TOKEN_BYTES_MAX + 1).strip()
    except OSError as error:
        raise QuestionError(f"--trace-token-file {path} cannot be read: {error.strerror}") from None
    if not token or len(token) > TOKEN_BYTES_MAX or any(not 0x21 <= byte <= 0x7E for byte in token):
        raise QuestionError(f"--trace-token-file {path} holds no token")
    return token.decode()


# --- a record --------------------------------------------------------------------------------------------------------------


async def _told(
    admin: AsyncAdmin,
    pages: NodePages,
    partition: TopicPartition,
    offset: int,
    events: Sequence[Mapping[str, Json]] = (),
    clocks: Json = None,
) -> Json:
    """An X-ray of a record, with what was heard of it."""
    facts = await facts_of(admin, pages, partition, offset)
    not_traced = [f"node {each['node']}: {each['problem']}" for each in facts["replicas"] if each["problem"]]
    return {
        **facts,
        "listened": bool(events),
        "events": list(events),
        "clocks": clocks,
        "story": [*heard_story(events), *told_story(facts)],
        "not_traced": not_traced,
    }


def _print(xray: Json, form: str) -> None:
    if form == "json":
        print_json([xray])
    elif form == "svg":
        sys.stdout.write(as_svg(xray))
    elif form == "html":
        sys.stdout.write(as_html(xray))
    else:
        for line in as_lines(xray):
            print_line(line)


# --- a probe ---------------------------------------------------------------------------------------------------------------


async def _produce(
    admin: AsyncAdmin, pages: NodePages, partition: TopicPartition, bootstrap: str, options: XrayOptions, form: str
) -> None:
    described = await describe_partition(admin, partition)
    groups = await _reading_groups(admin, partition)
    settings: Any = {
        **login_settings(ProducerOptions),
        "client_id": CLIENT_ID,
        "bootstrap_servers": bootstrap,
        "linger_ms": 0,
    }
    with Listening(pages, partition, described.replicas, groups) as listening:
        await listening.begun()
        async with AsyncProducer(**settings) as producer:
            for number in range(options.probes):
                if number:
                    # What came late of the one before.
                    listening.heard()
                delivery = await producer.send(partition.topic, PROBE, partition=partition.partition)
                offset = (await delivery).offset
                if offset is None or offset < 0:
                    raise RefusalError("the cluster has not said at which offset the probe is: it cannot be followed")
                if described.leader in listening.traced:
                    await _follow(listening, offset, described.in_sync, groups, options.wait_s)
                events = events_of(listening.heard(), offset)
                clocks = {
                    str(node): {
                        "offset_us": round(view.offset_us, 1),
                        "uncertainty_us": round(view.uncertainty_us, 1),
                        "is_measured": view.is_measured,
                    }
                    for node, view in listening.clocks().items()
                }
                _print(await _told(admin, pages, partition, offset, events, clocks), form)


async def _follow(
    listening: Listening, offset: int, in_sync: Sequence[int], groups: Mapping[str, int], wait_s: float
) -> None:
    """Until all of a probe's way was heard, as far as there are nodes that tell of it."""
    telling = [node for node in in_sync if node in listening.traced]
    await listening.wait(lambda heard: is_through(heard, offset, telling), _THROUGH_S)
    if groups:
        await listening.wait(lambda heard: _is_read(heard, offset, groups), wait_s)


def _is_read(heard: Sequence[Mapping[str, Json]], offset: int, groups: Mapping[str, int]) -> bool:
    found = {each["type"] for each in events_of(heard, offset)}
    return "fetch_answered" in found and (not groups or "offset_committed" in found)


async def _reading_groups(admin: AsyncAdmin, partition: TopicPartition) -> dict[str, int]:
    """Groups with members that read the partition, each with its coordinator: what they commit is listened to."""
    found: dict[str, int] = {}
    try:
        listed = await admin.list_groups(states=[GroupState.STABLE])
        for group, described in (await admin.describe_groups([each.group_id for each in listed])).items():
            if isinstance(described, ClientError) or len(found) >= GROUPS_MAX:
                continue
            if (
                any(partition in member.assignment for member in described.members)
                and described.coordinator is not None
            ):
                found[group] = described.coordinator
    except ClientError:
        # Whoever may not see the groups is not told what they do.
        return {}
    return found
