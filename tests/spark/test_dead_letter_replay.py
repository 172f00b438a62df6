"""Dead letters sent again, through the command line: what goes, what stays, and each once also when the replay is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import Result

from tests.spark import killed_replay
from tests.spark.written import WrittenRow, committed_rows
from tests.support.command_line import json_lines, tidelog
from tidelog import Admin, Producer
from tidelog.client.admin import TransactionState
from tidelog.testing import EmbeddedCluster

UNDECODABLE = "the value cannot be decoded"
NEGATIVE = "the price is not negative"
DEADLINE_S = 120


class Letters:
    """The dead letters of a pipeline over one topic, and what is done with them."""

    def __init__(self, cluster: EmbeddedCluster, topic: str, directory: Path) -> None:
        self.bootstrap = cluster.bootstrap_servers
        self.topic, self.dead, self.name = topic, f"{topic}.dead", f"p-{topic}"
        self.file = directory / "jobs.py"
        self.declare(self.topic)
        cluster.create_topic(self.dead, partitions=2)

    def declare(self, topic: str, **more: str) -> None:
        given = ", ".join(f"{name}={text!r}" for name, text in more.items())
        self.file.write_text(
            "from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTopic\n"
            f"p = Pipeline(name={self.name!r}, bootstrap={self.bootstrap!r}, sink=ToTopic('out'),\n"
            f"    source=FromTopic({topic!r}, Json('id string'), dead_letters={self.dead!r}, {given}))\n"
        )

    def add(
        self,
        values: Sequence[str],
        reason: str = NEGATIVE,
        *,
        pipeline: str | None = None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int = 1,
    ) -> None:
        with Producer(bootstrap_servers=self.bootstrap) as producer:
            for index, value in enumerate(values):
                said = {
                    "pipeline": pipeline or self.name,
                    "reason": reason,
                    "topic": self.topic,
                    "partition": str(partition),
                    "offset": str(index),
                    "timestamp": "2026-11-16T08:00:00.123Z",
                }
                own = [(f"tidelog.dead-letter.{name}", text.encode()) for name, text in said.items()]
                producer.send(
                    self.dead,
                    value.encode(),
                    key=b"k",
                    partition=index % 2,
                    headers=[*headers, *own],
                    timestamp_ms=1000,
                )

    def replay(self, *more: str) -> Result:
        return tidelog("pipeline", "replay-dead-letters", self.file, *more)

    def written(self) -> list[WrittenRow]:
        return committed_rows(self.bootstrap, self.topic)

    def values(self) -> list[str]:
        return sorted((row.value or b"").decode() for row in self.written())


@pytest.fixture
def letters(cluster: EmbeddedCluster, topic: str, tmp_path: Path) -> Letters:
    return Letters(cluster, topic, tmp_path)


def test_letters_are_counted_first_and_go_back_as_the_records_that_they_were(letters: Letters) -> None:
    letters.add(["a", "b"], headers=[("trace", b"1")])
    letters.add(["c"], UNDECODABLE)
    letters.add(["x"], pipeline="another")

    plan = letters.replay()
    assert plan.stdout.splitlines() == [
        f"{'TOPIC':{len(letters.topic)}}  {'REASON':27}  LETTERS  WOULD GO",
        f"{letters.topic}  {NEGATIVE:27}        2         2",
        f"{letters.topic}  {UNDECODABLE:27}        1         1",
        "nothing was sent: --execute does it",
    ]
    assert letters.written() == []

    done = letters.replay("--execute")
    assert (
        done.stdout.splitlines()[-1]
        == f"3 letters went back, which the group {letters.name}.dead-letters.replay remembers"
    )
    assert letters.values() == ["a", "b", "c"]
    (row,) = (row for row in letters.written() if row.value == b"a")
    assert (row.partition, row.key, row.timestamp_ms) == (1, b"k", 1_794_816_000_123)
    assert row.headers == [("trace", b"1"), ("tidelog.replays", b"1")]

    assert letters.replay("--execute").stdout == f"{letters.name} has no dead letters that have not gone already\n"
    assert len(letters.written()) == 3


def test_what_was_not_chosen_stays_and_goes_another_time(letters: Letters) -> None:
    for n in range(3):
        letters.add([f"n{n}", f"m{n}"])
        letters.add([f"u{n}"], f"{UNDECODABLE}: at {n}")

    assert letters.replay("--execute", "--reason", UNDECODABLE).exit_code == 0
    assert letters.values() == ["u0", "u1", "u2"]
    assert letters.replay("--execute", "--limit", "2").exit_code == 0
    assert len(letters.written()) == 5
    (left,) = json_lines(letters.replay("--json"))
    assert (left["letters"], left["chosen"], left["executed"]) == (4, 4, False)
    assert json_lines(letters.replay("--json", "--since", "2026-11-16"))[0]["chosen"] == 0
    assert letters.replay("--execute").exit_code == 0
    assert letters.values() == ["m0", "m1", "m2", "n0", "n1", "n2", "u0", "u1", "u2"]


def test_a_letter_that_comes_back_each_time_stays_at_last(letters: Letters) -> None:
    letters.add(["once"])
    letters.add(["often"], headers=[("tidelog.replays", b"3")])

    result = letters.replay("--execute")
    assert "1 letter went 3 times and came back: --replays-max lets them go again" in result.stdout
    assert letters.values() == ["once"]
    assert letters.replay("--execute", "--replays-max", "4").exit_code == 0
    assert letters.values() == ["often", "once"]


def test_letters_of_a_topic_that_is_not_read_any_more_stay(letters: Letters) -> None:
    letters.add(["a"])
    letters.declare("elsewhere")

    result = letters.replay("--execute")

    assert f"1 letter came from topics that {letters.name} does not read any more, and stay" in result.stdout
    assert letters.written() == []
    letters.declare(letters.topic)
    assert letters.replay("--execute").exit_code == 0
    assert letters.values() == ["a"]


def test_more_letters_than_a_transaction_takes_go_in_several(letters: Letters) -> None:
    values = [f"{n:04}" for n in range(1200)]
    letters.add(values)

    assert letters.replay("--execute").exit_code == 0

    assert letters.values() == values


@pytest.mark.parametrize("step", killed_replay.STEPS)
def test_a_replay_that_is_killed_sends_each_letter_once_when_it_is_repeated(letters: Letters, step: str) -> None:
    letters.add(["a", "b", "c"])
    command = [sys.executable, "-m", "tests.spark.killed_replay", str(letters.file), step]

    killed = subprocess.run(command, check=False, timeout=DEADLINE_S, capture_output=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = letters.values()
    assert before == (["a", "b", "c"] if step == "after" else [])

    assert letters.replay("--execute").exit_code == 0
    assert letters.values() == ["a", "b", "c"]
    with Admin(bootstrap_servers=letters.bootstrap) as admin:
        pattern = f"tidelog-replay\\.{letters.name}.*"
        assert not admin.list_transactions(states=[TransactionState.ONGOING], pattern=pattern)


def test_of_two_replays_at_once_the_later_one_sends_every_letter(
    letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters.add(["a", "b"])
    begin = Producer.begin_transaction

    def overtaken(producer: Producer) -> None:
        monkeypatch.setattr(Producer, "begin_transaction", begin)
        assert letters.replay("--execute").exit_code == 0
        begin(producer)

    monkeypatch.setattr(Producer, "begin_transaction", overtaken)
    result = letters.replay("--execute")

    assert (result.exit_code, result.stderr) == (
        1,
        f"tidelog pipeline: another replay of the dead letters of {letters.name} was started, and goes on in place of this one\n",
    )
    assert letters.values() == ["a", "b"]


def test_what_cannot_go_exactly_once_is_refused(letters: Letters) -> None:
    letters.declare(letters.topic, bootstrap="elsewhere:9092")

    result = letters.replay()

    assert result.exit_code == 1
    assert result.stderr == (
        f"tidelog pipeline: the dead letters of {letters.name} lie at {letters.bootstrap} and came from elsewhere:9092: "
        "no transaction is on both, so that they could not be sent again exactly once\n"
    )


def test_questions_without_an_answer_are_told_so(letters: Letters, tmp_path: Path) -> None:
    assert letters.replay("--since", "soon").exit_code == 2
    letters.file.write_text(letters.file.read_text().replace(f"dead_letters={letters.dead!r}, ", ""))
    result = letters.replay()
    assert (result.exit_code, result.stderr) == (
        2,
        f"tidelog pipeline: no source of {letters.name} says dead_letters=\n",
    )
    both = tmp_path / "both.py"
    both.write_text(
        "from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTopic\n"
        "ps = [Pipeline(name=n, source=FromTopic('t', Json('id string'), dead_letters='d'), sink=ToTopic('o')) for n in 'ab']\n"
    )
    result = tidelog("pipeline", "replay-dead-letters", both)
    assert (result.exit_code, result.stderr) == (
        2,
        "tidelog pipeline: a, b have dead letters: choose one with --only\n",
    )
