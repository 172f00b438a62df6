"""A file that says which replicas partitions are to have, as `kafka-reassign-partitions` reads and writes it.

    {"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2,4],"log_dirs":["any","any","any"]}]}

`log_dirs` may be left out, and may say nothing but `any`: brokers choose their directories themselves.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path

from tidelog.cli.admin_session import QuestionError
from tidelog.cli.reassign.reassignment_plan import Place, Replicas
from tidelog.cli.rendering import Json

_ANY = "any"
_EXAMPLE = '{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[1,2,3]}]}'


def as_json(assignment: Mapping[Place, Replicas]) -> dict[str, Json]:
    """What is written to a file."""
    return {
        "version": 1,
        "partitions": [
            {"topic": topic, "partition": index, "replicas": list(replicas), "log_dirs": [_ANY] * len(replicas)}
            for (topic, index), replicas in sorted(assignment.items())
        ],
    }


def read_assignment(path: str) -> dict[Place, Replicas]:
    """What a file asks for; `-` is standard input. QuestionError where it cannot be read."""
    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
    except OSError as error:
        raise QuestionError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise QuestionError(f"{path} is no text") from error
    return parse_assignment(text, path)


def parse_assignment(text: str, name: str) -> dict[Place, Replicas]:
    """The same of a text. Each partition may be there once, with one replica at least. A plan may ask for nothing."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise QuestionError(f"{name} is no JSON: expected {_EXAMPLE}") from error
    rows = content.get("partitions") if isinstance(content, dict) and content.get("version", 1) == 1 else None
    if not isinstance(rows, list):
        raise QuestionError(f"{name} names no partitions: expected {_EXAMPLE}")
    assignment: dict[Place, Replicas] = {}
    for row in rows:
        place, replicas = _row(row, name)
        if place in assignment:
            raise QuestionError(f"{name} names {place[0]}-{place[1]} twice")
        assignment[place] = replicas
    return assignment


def _row(row: object, name: str) -> tuple[Place, Replicas]:
    topic, index, replicas, directories = (
        row.get(key) if isinstance(row, dict) else None for key in ("topic", "partition", "replicas", "log_dirs")
    )
    is_read = isinstance(topic, str) and _is_number(index) and isinstance(replicas, list) and replicas
    if not is_read or not isinstance(replicas, list) or not all(map(_is_number, replicas)):
        raise QuestionError(f"{name} has a partition that is none: expected {_EXAMPLE}")
    if isinstance(directories, list) and any(each != _ANY for each in directories):
        raise QuestionError(
            f"{name} names a log directory for {topic}-{index}: brokers choose them, leave log_dirs out or write `any`"
        )
    return (str(topic), int(str(index))), tuple(replicas)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
