"""What a run is asked for, whose turn it is, and what it reads of a process."""

from __future__ import annotations

import socket
import struct
import threading
from pathlib import Path

import pytest

from benchmarks.broker.__main__ import parse
from benchmarks.broker.contestants import (
    Contestant,
    ContestantError,
    Contestants,
    Tidelog,
    resident_bytes,
    server_properties,
    tidelog_environment,
)
from benchmarks.broker.course import QUICK, Course
from benchmarks.broker.figures import BEFORE, OURS, Results
from benchmarks.broker.idle_connections import idle_connections
from benchmarks.broker.rows import ROWS, all_figures
from benchmarks.sessions import rows as sessions
from benchmarks.tls import rows as tls


def test_every_row_and_figure_has_a_name_of_its_own() -> None:
    tables = [[row.name for row in rows] for rows in (ROWS, sessions.ROWS, tls.ROWS)]
    keys = [figure.key for figure in (*all_figures(), *sessions.all_figures(), *tls.all_figures())]

    assert all(len(set(rows)) == len(rows) for rows in tables)
    assert len(set(keys)) == len(keys)


def test_rows_are_taken_in_the_order_of_the_table() -> None:
    assert [row.name for row in parse(["--rows", "round-trip, start"]).rows] == ["start", "round-trip"]
    assert parse([]).rows == ROWS


def test_a_quick_run_has_one_round_unless_more_are_asked_for() -> None:
    assert [parse(given).rounds for given in ([], ["--quick"], ["--quick", "--rounds", "2"])] == [3, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--rows", "start,speed"], "no such row: speed; there are start, up, produce-1k"),
        (["--rounds", "0"], "0 is not a number of rounds"),
        (["--quick", "--publish"], "measures nothing that could be published"),
    ],
)
def test_a_wrong_question_is_refused(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        parse(arguments)

    assert ended.value.code == 2
    assert complaint in capsys.readouterr().err


def test_contestants_take_turns_and_the_first_round_does_not_count(tmp_path: Path) -> None:
    first, second = Tidelog(tmp_path / "1"), Tidelog(tmp_path / "2")
    # Turns are pure; nothing of the rest is touched.
    course = Course(Results({}), None, None, QUICK, 2, lambda _: None)  # type: ignore[arg-type]

    turns: list[tuple[bool, Contestant]] = list(course.turns((first, second)))

    assert turns == [(False, second), (False, first), (True, first), (True, second), (True, second), (True, first)]


def test_the_node_of_another_checkout_is_beside_ours(tmp_path: Path) -> None:
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "tidelog").touch()
    with Contestants(tmp_path / "data", tmp_path).pair() as (ours, before):
        assert (ours.name, before.name) == (OURS, BEFORE)
    with pytest.raises(ContestantError, match="make environment"):
        Tidelog(tmp_path, checkout=tmp_path / "elsewhere")


def test_both_brokers_read_the_same_settings(tmp_path: Path) -> None:
    lines = dict(line.split("=", 1) for line in server_properties(tmp_path, 9092, 9093).splitlines())

    assert lines["log.dirs"] == str(tmp_path)
    assert lines["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert lines["controller.quorum.bootstrap.servers"] == "127.0.0.1:9093"


def test_further_listeners_stand_beside_the_plain_one(tmp_path: Path) -> None:
    text = server_properties(tmp_path, 9092, 9093, listeners={"EC": 9094})

    lines = dict(line.split("=", 1) for line in text.splitlines())
    assert lines["listeners"] == "PLAINTEXT://127.0.0.1:9092,EC://127.0.0.1:9094,CONTROLLER://127.0.0.1:9093"
    assert lines["advertised.listeners"] == lines["listeners"]


def test_resident_memory_is_that_of_the_status_file() -> None:
    assert resident_bytes("Name:\tx\nVmHWM:\t  900 kB\nVmRSS:\t  512 kB\n") == 512 * 1024
    with pytest.raises(ContestantError, match="has ended"):
        resident_bytes("Name:\tx\nState:\tZ (zombie)\n")


def test_a_broker_that_does_not_run_has_used_nothing_that_could_be_read(tmp_path: Path) -> None:
    with pytest.raises(ContestantError, match="tidelog does not run"):
        Tidelog(tmp_path).cpu_s()


def test_tidelog_starts_as_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.setenv("TIDELOG_LOG_DIRS", "/elsewhere")

    assert not {"PYTHONDONTWRITEBYTECODE", "TIDELOG_LOG_DIRS"} & tidelog_environment().keys()


@pytest.mark.parametrize(("error", "complaint"), [(0, None), (35, "answered with error 35")])
def test_an_idle_connection_has_been_answered(error: int, complaint: str | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(10)

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                asked = connection.recv(4096)
                assert asked[4:6] == struct.pack(">h", 18)
                connection.sendall(struct.pack(">iih", 6, 1, error))
                connection.recv(1)

        serving = threading.Thread(target=answer)
        serving.start()
        try:
            if complaint is None:
                with idle_connections(listening.getsockname()[1], 1):
                    pass
            else:
                with pytest.raises(ConnectionError, match=complaint), idle_connections(listening.getsockname()[1], 1):
                    pass
        finally:
            serving.join(10)
