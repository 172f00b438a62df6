from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tidelog.model.ids import PartitionIndex, TopicName, TopicPartition, uuid_from_text, uuid_to_text


@given(st.binary(min_size=16, max_size=16))
def test_an_id_survives_its_text(uuid: bytes) -> None:
    assert uuid_from_text(uuid_to_text(uuid)) == uuid


def test_text_is_kafkas_form() -> None:
    assert uuid_to_text(bytes(16)) == "AAAAAAAAAAAAAAAAAAAAAA"
    assert uuid_to_text(b"\xff" * 16) == "_____________________w"


@pytest.mark.parametrize(
    "text", ["", "AAAA", "A" * 23, "not an id at all......", "!" * 22, "_____________________x", "é" * 22]
)
def test_other_text_is_refused_in_one_sentence(text: str) -> None:
    with pytest.raises(ValueError, match="is not an id"):
        uuid_from_text(text)


def test_a_partition_prints_as_its_directory() -> None:
    assert str(TopicPartition(TopicName("orders.v1"), PartitionIndex(7))) == "orders.v1-7"
