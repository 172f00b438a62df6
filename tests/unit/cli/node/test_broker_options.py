"""`tidelog broker` read the quick way: as the command line reads it, or not at all."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from typer.testing import CliRunner

from tidelog.cli import commands, main
from tidelog.cli.node import node_commands
from tidelog.cli.node.broker_options import BrokerOptions, LogFormat, LogLevel, ordinary_broker_options

NAMES = (
    *("--config", "--set", "--log-format", "--log-level", "--metrics-port", "--metrics-host"),
    *("--metrics-cert", "--metrics-key", "--metrics-token-file"),
)
VALUES = (
    "a.properties",
    "a=b",
    "human",
    "json",
    "debug",
    "INFO",
    "0",
    "65535",
    "65536",
    "007",
    "1_0",
    "²",
    "",
    " ",
    "-1",
    "-",
)
WORDS = st.one_of(
    st.sampled_from([*NAMES, *VALUES, "--led-by-stdin", "--help", "--", "--conf", "broker", "--led-by-stdin=yes"]),
    st.builds("{}={}".format, st.sampled_from(NAMES), st.sampled_from(VALUES)),
    st.text(max_size=4),
)
PAIRS = st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)).map(list)
LINES = st.lists(st.one_of(WORDS.map(lambda word: [word]), PAIRS)).map(
    lambda parts: [word for part in parts for word in part]
)


def read_by_the_command_line(arguments: list[str]) -> BrokerOptions | None:
    """The options that reach the node; None where it is not started."""
    told: list[BrokerOptions] = []

    def start_broker(options: BrokerOptions) -> int:
        told.append(options)
        return 0

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_commands, "start_broker", start_broker)
        CliRunner().invoke(commands.command_line("broker"), ["broker", *arguments])
    return told[0] if told else None


def test_every_option_is_read() -> None:
    line = "--config a --set b=c --log-format json --log-level=debug --metrics-port 0 --metrics-host h --led-by-stdin"
    line += " --set d=e --metrics-cert c --metrics-key k --metrics-token-file t"

    options = ordinary_broker_options(["broker", *line.split()])

    assert options == BrokerOptions(
        "a", ("b=c", "d=e"), LogFormat.JSON, LogLevel.DEBUG, True, 0, "h", False, "c", "k", "t"
    )
    assert options == read_by_the_command_line(line.split())


def test_a_broker_without_options_has_those_of_the_command_line() -> None:
    assert ordinary_broker_options(["broker"]) == read_by_the_command_line([])


@given(LINES)
def test_what_is_read_the_quick_way_is_what_the_command_line_reads(arguments: list[str]) -> None:
    options = ordinary_broker_options(["broker", *arguments])

    assert options is None or options == read_by_the_command_line(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["up"],
        ["--help"],
        ["broker", "--help"],
        ["broker", "--config"],
        ["broker", "--config", ""],
        ["broker", "--set", "--config"],
        ["broker", "--log-level", "loud"],
        ["broker", "--metrics-port", "65536"],
        ["broker", "--metrics-port", "9" * 5000],
        ["broker", "server.properties"],
        ["broker", "--confg", "server.properties"],
    ],
)
def test_what_is_not_ordinary_is_left_to_the_command_line(arguments: list[str]) -> None:
    assert ordinary_broker_options(arguments) is None


def test_a_command_of_its_own_knows_no_others_but_looks_the_same() -> None:
    for name in ("up", "topics"):
        narrow = commands.command_line(name)
        assert len(narrow.registered_commands) + len(narrow.registered_groups) == 1

        helped = [
            CliRunner().invoke(each, [name, "--help"], prog_name="tidelog").stdout
            for each in (narrow, commands.all_commands())
        ]

        assert helped[0] == helped[1]
        assert f"tidelog {name} [OPTIONS]" in helped[0]


@pytest.mark.parametrize("word", [None, "--help", "topic", "--show-completion"])
def test_a_word_that_is_no_command_gets_all_commands(word: str | None) -> None:
    assert commands.command_line(word) is commands.all_commands()


def test_the_quick_way_runs_the_node(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[BrokerOptions] = []

    def start_broker(options: BrokerOptions) -> int:
        told.append(options)
        return 7

    monkeypatch.setattr(main, "start_broker", start_broker)
    monkeypatch.setattr("sys.argv", ["tidelog", "broker", "--config", "a"])

    with pytest.raises(SystemExit) as ended:
        main.main()

    assert (ended.value.code, told) == (7, [BrokerOptions("a")])
