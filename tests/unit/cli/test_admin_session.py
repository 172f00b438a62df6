"""Tables and settings of the administrative commands."""

from __future__ import annotations

import pytest

from tidelog.cli.admin_session import QuestionError, comma_separated, parse_pairs, print_json, print_table


def test_a_table_has_numbers_to_the_right(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["topic", "partitions"], [("orders", 3), ("a", 12)])

    assert capsys.readouterr().out == "TOPIC   PARTITIONS\norders           3\na               12\n"


def test_a_name_cannot_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["value"], [("\x1b[2J",)])

    assert "\x1b" not in capsys.readouterr().out


def test_json_is_one_object_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    print_json([{"a": 1}, {"b": None}])

    assert capsys.readouterr().out == '{"a":1}\n{"b":null}\n'


def test_settings_are_keys_and_values() -> None:
    assert parse_pairs(["retention.ms = 1", "x=a=b", "y="]) == {"retention.ms": "1", "x": "a=b", "y": ""}
    with pytest.raises(QuestionError, match="expected key=value"):
        parse_pairs(["retention.ms"])


def test_numbers_in_one_cell() -> None:
    assert (comma_separated([1, 2]), comma_separated([])) == ("1,2", "-")
