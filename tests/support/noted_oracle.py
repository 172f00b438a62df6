"""What Apache Kafka's coordinator of transactions has said, noted down: `tests/fixtures/kafka/transactions.json.xz`."""

from __future__ import annotations

import copy
import json
import lzma
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NOTES = Path(__file__).resolve().parents[1] / "fixtures" / "kafka" / "transactions.json.xz"
SEEDS = range(100)
"""Those of the histories that were noted down."""


class NotedOracle:
    """Answers the questions of one history. They have to be the ones that Kafka was asked, in their order."""

    def __init__(self, conversation: list[list[Any]]) -> None:
        self._conversation: Iterator[list[Any]] = iter(conversation)

    def ask(self, question: dict[str, Any]) -> Any:
        asked, answer = next(self._conversation)
        assert asked == question, "another history than the one that was noted down: run tools/note_transactions.py"
        return copy.deepcopy(answer)

    def is_at_end(self) -> bool:
        return next(self._conversation, None) is None


class NotingOracle:
    """Passes questions on, and remembers what was said."""

    def __init__(self, oracle: Any) -> None:
        self.conversation: list[list[Any]] = []
        self._oracle = oracle

    def ask(self, question: dict[str, Any]) -> Any:
        answer = self._oracle.ask(question)
        self.conversation.append([question, copy.deepcopy(answer)])
        return answer


def read_notes() -> dict[int, list[list[Any]]]:
    """The conversations by their seeds."""
    with lzma.open(NOTES, "rt", encoding="utf-8") as file:
        return {int(seed): conversation for seed, conversation in json.load(file).items()}


def write_notes(conversations: dict[int, list[list[Any]]]) -> None:
    with lzma.open(NOTES, "wt", encoding="utf-8") as file:
        json.dump(conversations, file, separators=(",", ":"))
