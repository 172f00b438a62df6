"""Files that say which replicas partitions are to have."""

from __future__ import annotations

import json

import pytest

from tidelog.cli.admin_session import QuestionError
from tidelog.cli.reassign.assignment_file import as_json, parse_assignment
from tidelog.cli.reassign.reassignment_throttles import FOLLOWER_REPLICAS, LEADER_REPLICAS, throttled_replicas


def test_what_is_written_is_read_back() -> None:
    assignment = {("orders", 1): (3, 1), ("audit", 0): (2,)}

    assert parse_assignment(json.dumps(as_json(assignment)), "plan") == assignment


def test_a_plan_may_ask_for_nothing() -> None:
    assert parse_assignment(json.dumps(as_json({})), "plan") == {}


def test_kafkas_own_files() -> None:
    text = """{"version":1,"partitions":[
        {"topic":"orders","partition":0,"replicas":[1,2],"log_dirs":["any","any"]},
        {"topic":"orders","partition":1,"replicas":[2]}]}"""

    assert parse_assignment(text, "plan") == {("orders", 0): (1, 2), ("orders", 1): (2,)}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "names no partitions"),
        ("{}", "names no partitions"),
        ('{"version":2,"partitions":[{"topic":"a","partition":0,"replicas":[1]}]}', "names no partitions"),
        ('{"partitions":[7]}', "a partition that is none"),
        ('{"partitions":[{"topic":"a","partition":0}]}', "a partition that is none"),
        ('{"partitions":[{"topic":"a","partition":true,"replicas":[1]}]}', "a partition that is none"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[]}]}', "a partition that is none"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[1.5]}]}', "a partition that is none"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[99999999999]}]}', "a partition that is none"),
        ('{"partitions":[{"topic":"a","partition":0,"replicas":[1],"log_dirs":["/x"]}]}', "names a log directory"),
        (
            '{"partitions":[{"topic":"a","partition":0,"replicas":[1]},{"topic":"a","partition":0,"replicas":[2]}]}',
            "names a-0 twice",
        ),
    ],
)
def test_what_is_no_plan(text: str, sentence: str) -> None:
    with pytest.raises(QuestionError, match=sentence):
        parse_assignment(text, "plan")


def test_who_sends_and_who_gets_is_throttled() -> None:
    current = {("orders", 0): (1, 2), ("orders", 1): (2, 3), ("quiet", 0): (1, 2)}
    target = {("orders", 0): (4, 2), ("orders", 1): (2, 3, 1), ("quiet", 0): (2, 1)}

    assert throttled_replicas(current, target) == {
        "orders": {LEADER_REPLICAS: "0:1,0:2,1:2,1:3", FOLLOWER_REPLICAS: "0:4,1:1"}
    }
