from __future__ import annotations

from random import Random
from uuid import UUID

import pytest
from hypothesis import given, strategies as st

from tidelog.model.ids import (
    LOST_DIRECTORY,
    MIGRATING_DIRECTORY,
    UNASSIGNED_DIRECTORY,
    PartitionIndex,
    TopicName,
    TopicPartition,
    is_reserved,
    random_uuid,
    uuid_from_text,
    uuid_to_text,
)


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


def test_new_ids_are_random_uuids_that_no_command_line_takes_for_an_option() -> None:
    random = Random(4)
    ids = [random_uuid(random) for _ in range(1000)]

    assert len(set(ids)) == 1000
    assert {UUID(bytes=uuid).version for uuid in ids} == {4}
    assert not any(uuid_to_text(uuid).startswith("-") or is_reserved(uuid) for uuid in ids)


def test_the_places_of_directories_are_reserved_ids() -> None:
    assert [uuid[-1] for uuid in (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, LOST_DIRECTORY)] == [0, 1, 2]
    assert all(map(is_reserved, (MIGRATING_DIRECTORY, UNASSIGNED_DIRECTORY, LOST_DIRECTORY)))
