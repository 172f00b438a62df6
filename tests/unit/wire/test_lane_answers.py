"""The answers that kernels write are those that messages encode to."""

from __future__ import annotations

import pytest

from tests.support.kernel_twins import TWINS, twin_of
from tidelog.kernel_choice import Twin
from tidelog.wire.frames import response_frame
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
