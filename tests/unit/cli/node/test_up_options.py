"""`tidelog up` read on the fast path: as typer reads it, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

from tidelog.cli import commands, main
from tidelog.cli.node import node_commands
from tidelog.cli.node.broker_options import LogFormat, LogLevel
from tidelog.cli.node.up_options import UpOptions, ordinary_up_options

NAMES = ("--nodes", "--port", "--dir", "--set", "--log-format", "--log-level", "--metrics-port", "--metrics-host")
VALUES = (
    "a",
    "a=b",
    "json",
    "debug",
    "INFO",
    "0",
    "1",
    "3",
    "100",
    "10000",
    "65535",
    "65536",
    "007",
    "²",
    "",
    "-1",
    "-",
)
WORDS = st.one_of(
    st.sampled_from([*NAMES, *VALUES, "--help", "--", "--node", "up"]),
    st.builds("{}={}".format, st.sampled_from(NAMES), st.sampled_from(VALUES)),
    st.text(max_size=4),
)
PAIRS = st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)).map(list)
LINES = st.lists(st.one_of(WORDS.map(lambda word: [word]), PAIRS)).map(
    lambda parts: [word for part in parts for word in part]
)


def read_by_typer(arguments: list[str]) -> UpOptions | None:
    """The options that reach the cluster; None where it is not started."""
    told: list[UpOptions] = []

    def start_up(options: UpOptions) -> int:
        told.append(options)
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_commands, "start_up", start_up)
        CliRunner().invoke(commands.command_line("up"), ["up", *arguments])
    return told[0] if told else None


def test_every_option_is_read() -> None:
    line = "--nodes 3 --port 0 --dir d --set b=c --log-format json --log-level=debug --metrics-port 0 --metrics-host h"
    line += " --set d=e"

    options = ordinary_up_options(["up", *line.split()])

    assert options == UpOptions(3, 0, "d", ("b=c", "d=e"), LogFormat.JSON, LogLevel.DEBUG, 0, "h")
    assert options == read_by_typer(line.split())


def test_without_options_it_has_those_of_the_command_line() -> None:
    assert ordinary_up_options(["up"]) == UpOptions() == read_by_typer([])


@given(LINES)
def test_what_the_fast_path_reads_is_what_typer_reads(arguments: list[str]) -> None:
    options = ordinary_up_options(["up", *arguments])

    assert options is None or options == read_by_typer(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["broker"],
        ["up", "--help"],
        ["up", "--dir"],
        ["up", "--dir", ""],
        ["up", "--nodes", "0"],
        ["up", "--nodes", "-1"],
        ["up", "--nodes", "9" * 5000],
        ["up", "--port", "65536"],
        ["up", "--log-level", "loud"],
        ["up", "directory"],
    ],
)
def test_what_is_not_ordinary_is_left_to_typer(arguments: list[str]) -> None:
    assert ordinary_up_options(arguments) is None


def test_the_fast_path_runs_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[UpOptions] = []

    def start_up(options: UpOptions) -> int:
        told.append(options)
        return 7

    monkeypatch.setattr(main, "start_up", start_up)
    monkeypatch.setattr("sys.argv", ["tidelog", "up", "--port", "0"])

    with pytest.raises(SystemExit) as ended:
        main.main()

    assert (ended.value.code, told) == (7, [UpOptions(port=0)])
