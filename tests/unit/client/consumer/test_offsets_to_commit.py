"""Offsets as an application gives them to be committed."""

from __future__ import annotations

from typing import Any

import pytest

from tidelog.client.consumer.records import OffsetAndMetadata, offsets_to_commit
from tidelog.client.errors import ConfigError


def test_numbers_and_offsets_with_metadata_are_taken() -> None:
    given: dict[tuple[str, int], int | OffsetAndMetadata] = {
        ("orders", 0): 42,
        ("orders", 1): OffsetAndMetadata(7, metadata="seven"),
    }

    assert offsets_to_commit(given) == {
        ("orders", 0): OffsetAndMetadata(42),
        ("orders", 1): OffsetAndMetadata(7, metadata="seven"),
    }


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ("orders", "offsets are given by partition"),
        ([("orders", 0)], "offsets are given by partition"),
        ({"orders": 1}, "a partition is named by its topic and its number"),
        ({("orders", 0): "1"}, "an offset is a number, not '1'"),
        ({("orders", 0): -1}, "the offset -1 is negative"),
    ],
)
def test_anything_else_is_refused_in_a_sentence(given: Any, sentence: str) -> None:
    with pytest.raises(ConfigError, match=sentence):
        offsets_to_commit(given)
