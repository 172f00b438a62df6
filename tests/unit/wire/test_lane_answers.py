"""The answers that kernels write are those that messages encode to."""

from __future__ import annotations

import pytest

from tests.support.kernel_twins import TWINS, twin_of
from tidelog.kernel_choice import Twin
from tidelog.wire.codec import encode
from tidelog.wire.frames import response_frame
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tidelog.wire.messages.produce import PartitionProduceResponse, ProduceResponse, TopicProduceResponse

OFFSETS = [(0, 0), (2**62, 7), (2**63 - 1, 2**62)]


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("version", range(7, 14))
@pytest.mark.parametrize(("first_offset", "log_start_offset"), OFFSETS)
def test_a_batch_that_was_appended(twin: Twin, version: int, first_offset: int, log_start_offset: int) -> None:
    partition = PartitionProduceResponse(
        index=70_000,
        error_code=0,
        base_offset=first_offset,
        log_append_time_ms=-1,
        log_start_offset=log_start_offset,
        record_errors=[],
    )
    topic = TopicProduceResponse(name="a topic", topic_id=bytes(range(16)), partition_responses=[partition])
    wanted = response_frame(ProduceResponse(responses=[topic]), version, 2**31 - 1)
    # What lies between the correlation id and the partition: all up to its index.
    head = wanted[8 : wanted.index((70_000).to_bytes(4, "big"))]

    write = twin_of("produce_kernel", twin).write_produced

    assert write(version, 2**31 - 1, head, 70_000, first_offset, log_start_offset) == wanted


@pytest.mark.parametrize("twin", TWINS)
@pytest.mark.parametrize("version", [12, 13, 18])
@pytest.mark.parametrize("is_committed", [False, True])
@pytest.mark.parametrize("records", [b"", b"r", b"r" * 126, b"r" * 127, b"r" * 16_382, b"r" * 16_383])
def test_records_of_one_partition(twin: Twin, version: int, is_committed: bool, records: bytes) -> None:
    partition = PartitionData(
        partition_index=70_000,
        error_code=0,
        high_watermark=2**63 - 1,
        last_stable_offset=2**40,
        log_start_offset=3,
        aborted_transactions=[] if is_committed else None,
        records=records,
    )
    topic = FetchableTopicResponse(topic="a topic", topic_id=bytes(range(16)), partitions=[partition])
    answer = FetchResponse(throttle_time_ms=0, error_code=0, responses=[topic])
    wanted = (-5).to_bytes(4, "big", signed=True) + b"\0" + encode(answer, version)
    at = wanted.index((70_000).to_bytes(4, "big"))
    write = twin_of("fetch_kernel", twin).write_fetched

    whole, begun = (
        write(-5, wanted[15:at], 70_000, 2**63 - 1, 2**40, 3, is_committed, len(records), each)
        for each in (records, None)
    )

    assert whole == wanted
    assert begun + records + bytes(3) == wanted
