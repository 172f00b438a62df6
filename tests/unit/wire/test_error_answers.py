"""Where a request that is refused as a whole finds its error: at the top of the answer, or in each entry that it named."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.message_values import values_for
from tidelog.model.errors import ErrorCode
from tidelog.wire.apis import Api, all_apis
from tidelog.wire.codec import decode, encode
from tidelog.wire.error_answers import error_answer
from tidelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from tidelog.wire.messages.find_coordinator import FindCoordinatorRequest
from tidelog.wire.messages.group_admin import DescribeGroupsRequest
from tidelog.wire.messages.groups_classic import HeartbeatRequest
from tidelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tidelog.wire.messages.produce import ProduceRequest
from tidelog.wire.schema import Request

REFUSED = ErrorCode.ILLEGAL_SASL_STATE


def answered(request: Request, version: int) -> Any:
    return error_answer(request, version, REFUSED, "Not now.")


def test_an_error_is_at_the_top_where_there_is_a_place_for_it() -> None:
    heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m", group_instance_id=None)

    assert answered(heartbeat, 4).error_code == REFUSED


def test_an_error_is_in_every_entry_elsewhere() -> None:
    partitions = [DeleteRecordsPartition(partition_index=each, offset=9) for each in (3, 5)]
    request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name="orders", partitions=partitions)], timeout_ms=1)

    (topic,) = answered(request, 2).topics

    assert topic.name == "orders"
    assert [(each.partition_index, each.low_watermark, each.error_code) for each in topic.partitions] == [
        (3, -1, REFUSED),
        (5, -1, REFUSED),
    ]


def test_entries_that_are_only_named_have_their_error_too() -> None:
    groups = answered(DescribeGroupsRequest(groups=["a", "b"], include_authorized_operations=False), 5).groups

    assert [(each.group_id, each.error_code) for each in groups] == [("a", REFUSED), ("b", REFUSED)]


def test_the_version_decides_where_the_error_is() -> None:
    request = FindCoordinatorRequest(key="g", key_type=0, coordinator_keys=["g"])

    old, new = answered(request, 3), answered(request, 4)

    assert (old.error_code, old.error_message, old.node_id, old.coordinators) == (REFUSED, "Not now.", -1, [])
    assert (new.error_code, [(each.key, each.error_code) for each in new.coordinators]) == (0, [("g", REFUSED)])


@pytest.mark.parametrize(("version", "at_top"), [(12, 0), (13, REFUSED)])
def test_metadata_names_its_topics_in_any_version(version: int, at_top: int) -> None:
    topics = [
        MetadataRequestTopic(topic_id=bytes(16), name="orders"),
        MetadataRequestTopic(topic_id=b"1" * 16, name=None),
    ]
    request = MetadataRequest(topics=topics, include_topic_authorized_operations=False)

    answer = answered(request, version)

    assert answer.error_code == at_top
    assert [(each.name, each.topic_id, each.error_code) for each in answer.topics] == [
        ("orders", bytes(16), REFUSED),
        ("", b"1" * 16, REFUSED),
    ]


def test_records_without_acknowledgement_are_not_answered() -> None:
    assert answered(ProduceRequest(transactional_id=None, acks=0, timeout_ms=1, topic_data=[]), 9) is None


@pytest.mark.parametrize("api", all_apis(), ids=lambda api: api.name)
def test_every_answer_can_be_sent(api: Api) -> None:
    for version in range(api.versions.lowest, api.versions.highest + 1):
        body = encode(values_for(api.request, version, 1), version)
        answer = answered(decode(api.request, version, body), version)
        if answer is not None:
            decode(api.response, version, encode(answer, version))
