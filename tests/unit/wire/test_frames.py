from __future__ import annotations

from dataclasses import dataclass

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.wire.apis import ApiKey
from tidelog.wire.errors import MalformedError, UnknownApiError, UnsupportedVersionError
from tidelog.wire.frames import (
    SIZE_BYTES,
    is_unknown_api_versions,
    read_request,
    read_request_header,
    read_response,
    request_frame,
    response_frame,
    response_frame_parts,
    unsupported_version_response,
)
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tidelog.wire.messages.groups_classic import HeartbeatRequest, HeartbeatResponse

HEARTBEAT = HeartbeatRequest(group_id="g", generation_id=3, member_id="m")


@pytest.mark.parametrize("version", [3, 4])
def test_a_request_comes_back_from_its_frame(version: int) -> None:
    data = request_frame(HEARTBEAT, version, correlation_id=77, client_id="me")

    size, frame = data[:SIZE_BYTES], data[SIZE_BYTES:]
    header, position = read_request_header(frame)

    assert int.from_bytes(size, "big") == len(frame)
    assert (header.request_api_key, header.request_api_version) == (ApiKey.HEARTBEAT, version)
    assert (header.correlation_id, header.client_id) == (77, "me")
    assert read_request(frame, header, position) == HEARTBEAT


def test_the_bytes_of_a_flexible_request() -> None:
    frame = request_frame(HEARTBEAT, 4, correlation_id=1, client_id=None)

    header = "000c000400000001ffff00"  # the client id keeps its two-byte length
    body = "026700000003026d0000"
    assert frame.hex() == f"{len(header + body) // 2:08x}{header}{body}"


def test_bytes_after_a_request_are_ignored_as_kafka_does() -> None:
    frame = request_frame(HEARTBEAT, 4, 1, None)[SIZE_BYTES:] + b"more"

    assert read_request(frame, *read_request_header(frame)) == HEARTBEAT


@pytest.mark.parametrize("version", [3, 4])
def test_a_response_comes_back_from_its_frame(version: int) -> None:
    response = HeartbeatResponse(throttle_time_ms=5, error_code=ErrorCode.REBALANCE_IN_PROGRESS)

    frame = response_frame(response, version, correlation_id=77)[SIZE_BYTES:]

    assert read_response(frame, ApiKey.HEARTBEAT, version) == (77, response)


def test_a_version_that_an_api_lacks_is_refused() -> None:
    with pytest.raises(UnsupportedVersionError, match="Produce has the versions 3-13, not version 2"):
        read_request_header(bytes.fromhex("0000000200000001ffff"))


def test_an_api_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnknownApiError):
        read_request_header(bytes.fromhex("0400000000000001ffff"))


@pytest.mark.parametrize("frame", ["", "0012", "001200", "00120004", "0012000400000001", "001200040000000100ff"])
def test_a_header_cut_short_is_malformed(frame: str) -> None:
    with pytest.raises(MalformedError):
        read_request_header(bytes.fromhex(frame))


@pytest.mark.parametrize("version", [5, 99, 32_767, -1])
def test_api_versions_in_an_unknown_version_is_answered_in_v0(version: int) -> None:
    key_and_version = (18).to_bytes(2, "big") + version.to_bytes(2, "big", signed=True)
    frame = key_and_version + bytes.fromhex("0000000900016b00") + b"a body from the future"

    header, _ = read_request_header(frame)
    answer = response_frame(unsupported_version_response(), 0, header.correlation_id)

    assert is_unknown_api_versions(header)
    assert header.client_id == "k"
    # The error, and one entry: ApiVersions itself, from 0 to 4.
    assert answer.hex() == "0000001000000009002300000001001200000004"


def test_api_versions_in_a_known_version_is_read_as_usual() -> None:
    request = ApiVersionsRequest(client_software_name="tidelog", client_software_version="1")
    frame = request_frame(request, 4, 1, None)[SIZE_BYTES:]

    header, position = read_request_header(frame)

    assert not is_unknown_api_versions(header)
    assert read_request(frame, header, position) == request


def test_a_client_reads_the_refusal_whatever_version_it_asked_for() -> None:
    frame = response_frame(unsupported_version_response(), 0, 9)[SIZE_BYTES:]

    _, answer = read_response(frame, ApiKey.API_VERSIONS, 4)

    assert isinstance(answer, ApiVersionsResponse)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert [(each.api_key, each.max_version) for each in answer.api_keys] == [(18, 4)]


@dataclass
class FileRegion:
    count: int


def test_a_fetch_is_sent_in_parts_with_its_region_between() -> None:
    def response(records: bytes | FileRegion) -> FetchResponse:
        partition = PartitionData(
            partition_index=0, error_code=0, high_watermark=9, aborted_transactions=None, records=records
        )
        topic = FetchableTopicResponse(topic_id=bytes(16), partitions=[partition])
        return FetchResponse(throttle_time_ms=0, error_code=0, responses=[topic])

    region = FileRegion(5)

    before, passed, after = response_frame_parts(response(region), 17, correlation_id=3)

    assert passed is region
    assert isinstance(before, bytes)
    assert isinstance(after, bytes)
    assert before + b"bytes" + after == response_frame(response(b"bytes"), 17, correlation_id=3)
