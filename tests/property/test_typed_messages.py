"""Typed messages read and write what the functions that are generated at run time do, and refuse what those refuse.

Here the two are held against each other: elsewhere nobody could tell which of them had answered.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from random import Random

import pytest
from hypothesis import given, strategies as st

from tests.property.test_messages_fuzz import PIVOTAL, mutated
from tests.support.message_values import values_for
from tidelog.model.ids import ZERO_UUID
from tidelog.wire.codec import generated_decode_from, generated_encode_parts, parts_bytes
from tidelog.wire.errors import EncodeError, MalformedError, UnsupportedVersionError
from tidelog.wire.messages import all_messages
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from tidelog.wire.messages.headers import ResponseHeader
from tidelog.wire.schema import (
    BOOL,
    RECORDS,
    STRING,
    UUID,
    ArrayOf,
    Field,
    Fixed,
    Message,
    Region,
    Struct,
    StructOf,
    fields_of,
    is_typed,
)
from tidelog.wire.typed.message import (
    NO_HEADER,
    RECORDS_COPIED_BYTES_MAX,
    decode_typed,
    encode_typed,
    encode_typed_parts,
)

MUTATIONS_PER_PAIR = 250
VALUES_PER_PAIR = 12

MESSAGES = [message for message in all_messages() if is_typed(message)]
PAIRS = [(message, version) for message in MESSAGES for version in message.versions.each()]


def name(message: type[Message]) -> str:
    return message.__name__


def generated_bytes(message: Message, version: int) -> bytes:
    return b"".join(generated_encode_parts(message, version))  # type: ignore[arg-type] # no regions among the values


def read_by_both(message: type[Message], version: int, data: bytes) -> None:
    try:
        expected = generated_decode_from(message, version, data)
    except MalformedError:
        assert decode_typed(message, version, data, 0) is None
        assert decode_typed(message, version, memoryview(bytearray(data)), 0) is None
        return
    assert decode_typed(message, version, data, 0) == expected
    assert decode_typed(message, version, memoryview(bytearray(data)), 0) == expected


def test_the_messages_of_the_data_path_are_typed() -> None:
    assert {name(message) for message in MESSAGES} >= {
        "FetchRequest",
        "ProduceResponse",
        "EndTxnRequest",
        "RequestHeader",
    }


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_what_one_writes_the_other_reads(message: type[Message]) -> None:
    for version in message.versions.each():
        for seed in range(VALUES_PER_PAIR):
            value = values_for(message, version, seed)
            data = generated_bytes(value, version)

            assert encode_typed(value, version) == data
            assert decode_typed(message, version, data, 0) == (value, len(data))
            assert decode_typed(message, version, b"before" + data + b"after", 6) == (value, 6 + len(data))
            assert generated_decode_from(message, version, data) == (value, len(data))


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_bytes_that_are_wrong_somewhere(message: type[Message]) -> None:
    for version in message.versions.each():
        random = Random(f"{message.__name__} {version}")
        for seed in range(5):
            data = generated_bytes(values_for(message, version, seed), version)
            for _ in range(MUTATIONS_PER_PAIR // 5):
                read_by_both(message, version, mutated(data, random))


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_bytes_that_end_anywhere(message: type[Message]) -> None:
    for version in message.versions.each():
        data = generated_bytes(values_for(message, version, seed=3), version)
        for end in range(min(len(data), 400)):
            read_by_both(message, version, data[:end])


@given(data=st.binary(max_size=200))
def test_any_bytes(data: bytes) -> None:
    for message, version in PAIRS:
        read_by_both(message, version, data)


@given(
    pair=st.sampled_from(PAIRS),
    seed=st.integers(0, 1000),
    edits=st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(PIVOTAL)), min_size=1, max_size=4),
)
def test_pivotal_bytes_anywhere(pair: tuple[type[Message], int], seed: int, edits: list[tuple[int, int]]) -> None:
    message, version = pair
    data = bytearray(generated_bytes(values_for(message, version, seed), version))
    for position, byte in edits:
        data[position % len(data)] = byte

    read_by_both(message, version, bytes(data))


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_a_version_that_does_not_exist(message: type[Message]) -> None:
    lowest, highest = message.versions
    for version in (lowest - 1, highest + 1):
        assert decode_typed(message, version, bytes(200), 0) is None
        assert encode_typed(message(), version) is None


def wrong_values(field: Field) -> list[object]:
    """Values that a field of a typed class takes, and bytes cannot."""
    match field.wire_type:
        case Fixed() if field.wire_type is UUID:
            return [b"short", None, b"x" * 17]
        case Fixed() if field.wire_type is BOOL or field.wire_type.size_bytes == 8:
            return []
        case Fixed(size_bytes=size):
            return [2 ** (8 * size - 1), -(2 ** (8 * size - 1)) - 1]
        case ArrayOf(element):
            if isinstance(element, StructOf):
                return [[None], [object()]]
            return [[2**31], [None]] if isinstance(element, Fixed) else [["\ud800"], [b"x"]]
        case _ if field.wire_type is STRING:
            return ["x" * 32_768, "é" * 20_000, "\ud800", b"bytes"]
        case _ if field.wire_type is RECORDS:
            return [3]
        case _:
            return []


def outcome(message: Message, version: int) -> bytes | None:
    try:
        return generated_bytes(message, version)
    except (EncodeError, UnsupportedVersionError):
        return None


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_values_that_bytes_cannot_hold(message: type[Message]) -> None:
    for version in message.versions.each():
        for field in fields_of(message):
            for wrong in wrong_values(field):
                value = values_for(message, version, seed=1)
                setattr(value, field.name, wrong)

                assert encode_typed(value, version) == outcome(value, version)


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_fields_that_a_version_does_not_have(message: type[Message]) -> None:
    newest = values_for(message, message.versions.highest, seed=2)
    for version in message.versions.each():
        assert encode_typed(newest, version) == outcome(newest, version)


def structs_of(struct: type[Struct]) -> set[type[Struct]]:
    found = {struct}
    for field in fields_of(struct):
        inner = field.wire_type.element if isinstance(field.wire_type, ArrayOf) else field.wire_type
        if isinstance(inner, StructOf):
            found |= structs_of(inner.struct)
    return found


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_a_typed_class_is_what_its_declaration_says(message: type[Message]) -> None:
    for struct in structs_of(message):
        assert issubclass(struct, Struct)
        assert isinstance(struct(), Struct)
        assert is_typed(struct)
        fields = fields_of(struct)
        assert [getattr(struct(), field.name) for field in fields] == [field.default for field in fields]
        assert struct() == struct(*(getattr(struct(), field.name) for field in fields))
        assert repr(struct()).startswith(f"{struct.__name__}({fields[0].name}=")
        with pytest.raises(TypeError):
            hash(struct())
    assert issubclass(message, Message)
    assert not issubclass(message, structs_of(FetchResponse).difference({FetchResponse}).pop())


def test_defaults_are_never_shared() -> None:
    one, other = PartitionData(), PartitionData()  # type: ignore[call-arg] # a type checker wants the required ones
    one.current_leader.leader_id = 7
    left, right = FetchResponse(), FetchResponse()  # type: ignore[call-arg]
    left.responses.append(FetchableTopicResponse(topic_id=ZERO_UUID, partitions=[one]))

    assert other.current_leader.leader_id == -1
    assert right.responses == []
    assert one != other


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_a_copy_is_equal_and_another_one(message: type[Message]) -> None:
    value = values_for(message, message.versions.highest, seed=4)
    copied = copy.deepcopy(value)

    assert copied == value
    assert copied is not value


@dataclass
class FileRegion:
    count: int


def fetched(*records: bytes | memoryview | Region | None) -> FetchResponse:
    partitions = [
        PartitionData(partition_index=index, error_code=0, high_watermark=9, aborted_transactions=None, records=each)
        for index, each in enumerate(records)
    ]
    topic = FetchableTopicResponse(topic="t", topic_id=ZERO_UUID, partitions=partitions)
    return FetchResponse(throttle_time_ms=0, error_code=0, responses=[topic])


@pytest.mark.parametrize("version", range(4, 13))
@pytest.mark.parametrize(
    "records",
    [
        (FileRegion(70_000),),
        (FileRegion(5), b"small", FileRegion(200), None, memoryview(bytes(RECORDS_COPIED_BYTES_MAX + 1)), b""),
        (bytes(RECORDS_COPIED_BYTES_MAX), bytearray(3)),
        (),
    ],
)
def test_parts_are_the_same_parts(records: tuple[bytes | memoryview | Region | None, ...], version: int) -> None:
    answer = fetched(*records)
    expected = generated_encode_parts(answer, version)

    parts = encode_typed_parts(answer, version, 0, NO_HEADER, with_size=False)

    assert parts == expected
    assert all(part is other for part, other in zip(parts, expected, strict=True) if not isinstance(part, bytes))


@pytest.mark.parametrize("header_version", [0, 1])
@pytest.mark.parametrize("records", [(FileRegion(70_000),), (b"small",), (bytes(20_000), None)])
def test_a_response_follows_its_header(records: tuple[bytes | Region | None, ...], header_version: int) -> None:
    answer = fetched(*records)
    body = encode_typed_parts(answer, 12, 0, NO_HEADER, with_size=False)
    header = encode_typed(ResponseHeader(correlation_id=-77), header_version)

    parts = encode_typed_parts(answer, 12, -77, header_version, with_size=True)

    assert body is not None
    assert header is not None
    assert parts is not None
    size = (len(header) + parts_bytes(body)).to_bytes(4, "big")
    assert parts == [size + header + body[0], *body[1:]]
    assert encode_typed_parts(answer, 12, -77, header_version, with_size=False) == [header + body[0], *body[1:]]


def test_records_that_are_read_share_the_buffer_and_can_be_replaced() -> None:
    buffer = bytearray(generated_bytes(fetched(b"abc"), 12))
    read = decode_typed(FetchResponse, 12, memoryview(buffer), 0)
    assert read is not None
    partition = read[0].responses[0].partitions[0]

    buffer[buffer.index(b"abc")] = ord("x")

    assert bytes(partition.records) == b"xbc"
    assert partition.records is partition.records
    partition.records = b"other"
    assert partition.records == b"other"


def test_a_buffer_that_is_not_plain_bytes_is_left_to_the_others() -> None:
    data = generated_bytes(fetched(b"abc"), 12)
    every_second = memoryview(b"".join(bytes((byte, 0)) for byte in data))[::2]

    assert decode_typed(FetchResponse, 12, bytearray(data), 0) is not None
    assert decode_typed(FetchResponse, 12, every_second, 0) in (
        None,
        decode_typed(FetchResponse, 12, data, 0),
    )
    assert decode_typed(FetchResponse, 12, data, len(data) + 1) is None
    assert decode_typed(FetchResponse, 12, data, -1) is None
