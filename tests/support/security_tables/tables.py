"""The tables under tests/fixtures/security: questions with the answers that Apache Kafka gave, a JSON value a line."""

from __future__ import annotations

import json
import lzma
from collections.abc import Iterable
from typing import Any

from tests.support.apache_kafka import REPOSITORY

TABLES = REPOSITORY / "tests" / "fixtures" / "security"


def read(name: str) -> list[Any]:
    with lzma.open(TABLES / f"{name}.jsonl.xz", "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def write(name: str, rows: Iterable[Any]) -> None:
    TABLES.mkdir(parents=True, exist_ok=True)
    with lzma.open(TABLES / f"{name}.jsonl.xz", "wt", encoding="utf-8", preset=9) as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=True, separators=(",", ":")) + "\n")
