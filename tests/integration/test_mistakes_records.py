"""Mistakes with records, and what each gets: one sentence, an exit code, at once."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from typer.testing import CliRunner

from tests.support.command_process import command, environment
from tidelog.cli.commands import all_commands
from tidelog.testing import EmbeddedCluster

# What a person takes for an answer at once. Nothing here waits for anything; a busy machine may take seconds all the same.
SOON_S = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        cluster.create_topic("orders", partitions=2)
        cluster.create_topic("keyed", partitions=1, configs={"cleanup.policy": "compact"})
        yield cluster


@dataclass(frozen=True)
class Ran:
    code: int
    out: bytes
    errors: list[str]


def run(cluster: EmbeddedCluster, *arguments: str, text: bytes = b"") -> Ran:
    begun_s = time.monotonic()
    environment = {"TIDELOG_BOOTSTRAP": cluster.bootstrap_servers}
    result = CliRunner().invoke(all_commands(), arguments, input=text, env=environment)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert time.monotonic() - begun_s < SOON_S
    return Ran(result.exit_code, result.stdout_bytes, result.stderr.splitlines())


@dataclass(frozen=True)
class Mistake:
    typed: tuple[str, ...]
    sentence: str
    code: int
    text: bytes = b""


PATTERN = "is a pattern, and topics are given by name here: `tidelog topics list` shows the names"

MISTAKES = [
    Mistake(
        ("produce", "t", "--header", "foo"),
        "produce: 'foo' is not a header: expected --header key=value, as in --header source=shop",
        2,
    ),
    Mistake(
        ("produce", "t", "--header", "=x"),
        "produce: '=x' is not a header: expected --header key=value, as in --header source=shop",
        2,
    ),
    Mistake(("produce", "ord*"), f"produce: 'ord*' {PATTERN}", 2),
    Mistake(
        ("produce", "a b"),
        "produce: 'a b' is not the name of a topic: it is made of letters, digits, '.', '_' and '-', 249 at most",
        2,
    ),
    Mistake(("produce", "t", "/nowhere"), "produce: /nowhere cannot be read: No such file or directory", 2),
    Mistake(
        ("produce", "t", "--key-separator", ":"),
        "produce: line 1 has no key: expected the separator ':' in it; nothing is in t, and nothing that follows was sent",
        2,
        b"x",
    ),
    Mistake(
        ("produce", "t", "--key-separator", ""),
        "produce: the key separator is empty; one as in --key-separator : has a character at least",
        2,
    ),
    Mistake(
        ("produce", "t", "--key", "k", "--key-separator", ":"),
        "produce: --key and --key-separator contradict each other",
        2,
    ),
    Mistake(
        ("produce", "t", "--from-json"),
        "produce: line 1 is not JSON: Expecting value: line 1 column 1 (char 0); nothing is in t, and nothing that follows "
        "was sent",
        2,
        b"x",
    ),
    Mistake(
        ("produce", "t", "--from-json"),
        'produce: line 1 has 5 as its value: expected text, null or {"base64": "..."}; JSON goes in quotes, as text; '
        "nothing is in t, and nothing that follows was sent",
        2,
        b'{"value": 5}',
    ),
    Mistake(
        ("produce", "t", "--from-json"),
        "produce: line 1 has a field 'payload'; a record has key, value, headers, partition, timestamp, topic, offset; "
        "nothing is in t, and nothing that follows was sent",
        2,
        b'{"payload": "x"}',
    ),
    Mistake(
        ("produce", "t", "--from-json", "--null", "x"),
        "produce: JSON lines have keys and nulls of their own: leave out --key-separator and --null",
        2,
    ),
    Mistake(
        ("produce", "t"),
        "produce: line 1 is longer than 1048576 bytes, the most that a record can have; nothing is in t, and nothing that "
        "follows was sent",
        2,
        b"x" * 2_000_000,
    ),
    Mistake(
        ("produce", "orders", "--partition", "7"),
        "produce: orders: there is no partition 7: the topic has 2; nothing is in orders, and nothing that follows was sent",
        1,
        b"x",
    ),
    Mistake(("consume", "ord*"), f"consume: 'ord*' {PATTERN}", 2),
    Mistake(("consume", "orders|t"), f"consume: 'orders|t' {PATTERN}", 2),
    Mistake(
        ("consume", "a b"),
        "consume: 'a b' is not the name of a topic: it is made of letters, digits, '.', '_' and '-', 249 at most",
        2,
    ),
    Mistake(("consume", "nothing"), "consume: there is no topic nothing", 1),
    Mistake(
        ("consume", "orders", "--group", "g", "--share", "g"),
        "consume: --group and --share exclude each other: a group is either of consumers or a share group",
        2,
    ),
    Mistake(
        ("consume", "orders:0", "--share", "g"),
        "consume: the members of a share group are given partitions: leave out --share, or the partitions",
        2,
    ),
    Mistake(
        ("consume", "orders", "--share", "g", "--from", "end"),
        "consume: a share group goes on where it is: change that with `tidelog groups reset-offsets`, or leave out --share",
        2,
    ),
    Mistake(
        ("consume", "orders", "--share", "g", "--read-committed"),
        "consume: what a share group reads is its own setting share.isolation.level: leave out --share, or --read-committed",
        2,
    ),
    Mistake(
        ("consume", "orders", "--share", "g", "--group-protocol", "consumer"),
        "consume: share groups have one protocol: leave out --share, or --group-protocol",
        2,
    ),
    Mistake(("consume", "orders:7"), "consume: topic orders has no partition 7", 1),
    Mistake(
        ("consume", "orders:x"),
        "consume: 'orders:x' is not a topic: expected its name, or as in orders:0,1 with partitions",
        2,
    ),
    Mistake(
        ("consume", "orders", "--from", "x"),
        "consume: 'x' is no place to begin: expected beginning, end, an offset, or -N for the last N records",
        2,
    ),
    Mistake(
        ("consume", "orders", "--from", "99999"),
        "consume: offset 99999 is past the end: orders-0 ends at 0, orders-1 ends at 0",
        1,
    ),
    Mistake(
        ("consume", "orders:0", "--group", "g"),
        "consume: the members of a group share partitions: leave out --group, or the partitions",
        2,
    ),
]


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: " ".join(mistake.typed))
def test_a_mistake_is_one_sentence(cluster: EmbeddedCluster, mistake: Mistake) -> None:
    ran = run(cluster, *mistake.typed, text=mistake.text)

    assert (ran.code, ran.out, ran.errors) == (mistake.code, b"", [f"tidelog {mistake.sentence}"])


def test_a_topic_that_comes_about_is_told_of_and_so_is_how_many_records_are_in_it(cluster: EmbeddedCluster) -> None:
    first = run(cluster, "produce", "fresh", text=b"1\n2\n3\n")
    second = run(cluster, "produce", "fresh", text=b"4\n")
    none = run(cluster, "produce", "never")

    assert (first.code, first.out) == (0, b"")
    assert first.errors == [
        "tidelog produce: topic fresh was created, with 1 partition",
        "tidelog produce: 3 records written to fresh",
    ]
    assert second.errors == ["tidelog produce: 1 record written to fresh"]
    assert none.errors == ["tidelog produce: 0 records written to never"]
    assert run(cluster, "consume", "never").code == 1


def test_a_topic_that_nobody_creates_is_said_at_once() -> None:
    with EmbeddedCluster(config={"auto.create.topics.enable": "false"}) as cluster:
        ran = run(cluster, "produce", "orders", text=b"1\n")
        cluster.create_topic("orders")
        nearly = run(cluster, "produce", "oders", text=b"1\n")

    assert nearly.errors[0].endswith("`tidelog topics create oders` does; did you mean orders?")
    assert (ran.code, ran.out) == (1, b"")
    assert ran.errors == [
        (
            "tidelog produce: there is no topic orders, and the cluster creates none by itself: "
            "`tidelog topics create orders` does"
        )
    ]


def test_after_a_line_that_is_none_it_says_what_is_in(cluster: EmbeddedCluster) -> None:
    ran = run(cluster, "produce", "partly", "--key-separator", "=", text=b"a=1\nb=2\nc\nd=4\n")

    assert (ran.code, ran.out) == (2, b"")
    assert ran.errors == [
        "tidelog produce: topic partly was created, with 1 partition",
        (
            "tidelog produce: line 3 has no key: expected the separator '=' in it; the 2 records before it are in partly, "
            "and nothing that follows was sent"
        ),
    ]
    assert run(cluster, "consume", "partly").out == b"1\n2\n"


def test_after_a_record_that_the_cluster_refuses_it_says_which_and_what_is_in(cluster: EmbeddedCluster) -> None:
    keyed = b'{"key": "a", "value": "1"}\n'
    # Paced, so that the first record is a batch of its own.
    ran = run(cluster, "produce", "keyed", "--from-json", "--rate", "5", text=keyed + b'{"value": "2"}\n')

    assert (ran.code, ran.out, len(ran.errors)) == (1, b"", 1)
    assert ran.errors[0].startswith("tidelog produce: line 2 was not written: keyed-0: ")
    assert ran.errors[0].endswith("(INVALID_RECORD); 1 of the 2 that were sent are in keyed")
    assert run(cluster, "consume", "keyed").out == b"1\n"


def test_with_json_the_count_is_on_standard_output_alone(cluster: EmbeddedCluster) -> None:
    ran = run(cluster, "produce", "orders", "--partition", "1", "--json", text=b"x\n")

    assert (json.loads(ran.out), ran.errors) == ({"topic": "orders", "records": 1}, [])


def test_following_from_past_the_end_says_where_it_ends_and_waits(cluster: EmbeddedCluster) -> None:
    cluster.create_topic("short", partitions=5)

    ran = run(cluster, "consume", "short", "--from", "12", "--follow", "--timeout", "0.1")

    assert (ran.code, ran.out) == (0, b"")
    assert ran.errors == [
        (
            "tidelog consume: offset 12 is past the end: short-0 ends at 0, short-1 ends at 0, short-2 ends at 0, "
            "2 more end before it too; following from there"
        )
    ]


def test_a_value_is_escaped_on_a_terminal_and_as_it_is_in_a_pipe(cluster: EmbeddedCluster) -> None:
    value = b"\x1b[31mred\x1b[0m\ttab \xff"
    run(cluster, "produce", "coloured", text=value)
    variables = environment({"TIDELOG_BOOTSTRAP": cluster.bootstrap_servers})

    near, far = pty.openpty()
    with subprocess.Popen(command("consume", "coloured"), stdout=far, stderr=subprocess.PIPE, env=variables):
        os.close(far)
        shown = os.read(near, 1000)
    os.close(near)

    assert shown.rstrip(b"\r\n") == b"\\x1b[31mred\\x1b[0m\ttab \\xff"
    assert run(cluster, "consume", "coloured").out == value + b"\n"


def test_columns_without_pyarrow_name_the_extra() -> None:
    program = """
import asyncio, sys
sys.modules["pyarrow"] = None
from tidelog import AsyncConsumer, AsyncProducer, Consumer, Producer
from tidelog.client.errors import MissingExtraError
node = "127.0.0.1:1"
async def poll():
    await AsyncConsumer(bootstrap_servers=node).poll_arrow()
async def send():
    await AsyncProducer(bootstrap_servers=node).send_arrow("orders", None)
for call in (
    lambda: Consumer(bootstrap_servers=node).poll_arrow(),
    lambda: Producer(bootstrap_servers=node).send_arrow("orders", None),
    lambda: asyncio.run(poll()),
    lambda: asyncio.run(send()),
):
    try:
        call()
    except MissingExtraError as error:
        print(error, isinstance(error, ImportError))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=SOON_S * 3
    )

    expected = [f"{call} needs pyarrow: pip install 'tidelog[arrow]' True" for call in ("poll_arrow", "send_arrow") * 2]
    assert (ran.returncode, ran.stdout.splitlines()) == (0, expected), ran.stderr
