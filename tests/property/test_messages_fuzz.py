"""Whatever bytes come for any message and version, the answer is a message or one typed error."""

from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import given, strategies as st

from tests.support.message_values import all_pairs, values_for
from tidelog.wire.codec import decode, decode_from, encode
from tidelog.wire.errors import MalformedError, UnsupportedVersionError
from tidelog.wire.frames import is_unknown_api_versions, read_request, read_request_header
from tidelog.wire.messages import all_messages
from tidelog.wire.schema import Message

MUTATIONS_PER_PAIR = 60

# Bytes that mean most as a length, a count, a varint's start or an end.
PIVOTAL = (0x00, 0x01, 0x02, 0x7F, 0x80, 0xFF)

MESSAGES = list(all_messages())
PAIRS = all_pairs()


def name(message: type[Message]) -> str:
    return message.__name__


def read_any(message: type[Message], version: int, data: bytes) -> bool:
    """Decodes what may be garbage. What is a message must be one that can be written and read again."""
    try:
        decoded, _ = decode_from(message, version, data)
    except MalformedError:
        return False
    again = encode(decoded, version)
    assert encode(decode(message, version, again), version) == again
    return True


def mutated(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 4))):
        position = random.randrange(len(changed) + 1)
        byte = random.choice((*PIVOTAL, random.randrange(256)))
        match random.randrange(6):
            case 0 | 1 if position < len(changed):
                changed[position] = byte
            case 2:
                changed[position:position] = bytes((byte,)) * random.choice((1, 1, 5))
            case 3:
                del changed[position : position + random.choice((1, 1, 4, 16))]
            case 4:
                changed[position : position + 4] = random.choice((b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff" * 5))
            case _:
                del changed[position:]
    return bytes(changed)


@pytest.mark.parametrize("message", MESSAGES, ids=name)
def test_mutations_of_valid_bytes(message: type[Message]) -> None:
    for version in message.versions.each():
        random = Random(f"{message.__name__} {version}")
        data = encode(values_for(message, version, seed=1), version)
        for _ in range(MUTATIONS_PER_PAIR):
            read_any(message, version, mutated(data, random))


@given(data=st.binary(max_size=300))
def test_any_bytes_for_every_message_and_version(data: bytes) -> None:
    for message, version in PAIRS:
        read_any(message, version, data)


@given(
    pair=st.sampled_from(PAIRS),
    seed=st.integers(0, 1000),
    edits=st.lists(st.tuples(st.integers(0, 10_000), st.sampled_from(PIVOTAL)), min_size=1, max_size=4),
)
def test_pivotal_bytes_anywhere(pair: tuple[type[Message], int], seed: int, edits: list[tuple[int, int]]) -> None:
    message, version = pair
    data = bytearray(encode(values_for(message, version, seed), version) or b"\0")
    for position, byte in edits:
        data[position % len(data)] = byte

    read_any(message, version, bytes(data))


@given(
    frame=st.binary(max_size=60)
    | st.builds(lambda key, rest: key.to_bytes(2, "big") + rest, st.integers(0, 100), st.binary(max_size=60))
)
def test_any_request(frame: bytes) -> None:
    try:
        header, position = read_request_header(frame)
        if not is_unknown_api_versions(header):
            read_request(frame, header, position)
    except (MalformedError, UnsupportedVersionError):
        pass


def allocated_for(message: type[Message], version: int, length: bytes) -> int:
    """The bytes that decoding took at its peak."""
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    decode_lie(message, version, length)
    return tracemalloc.get_traced_memory()[1] - before


@pytest.mark.parametrize(
    "length",
    [b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\xff\xff\x7f", b"\x7f\xff\xff\xff", b"\x00\xff\xff\xff"],
)
def test_a_lie_about_size_allocates_nothing(length: bytes) -> None:
    for message, version in PAIRS:
        decode_lie(message, version, length)
    tracemalloc.start()
    try:
        for message, version in PAIRS:
            # Threads that other tests have left running allocate, too, but not each time.
            assert any(allocated_for(message, version, length) < 50_000 for _ in range(5)), (message, version)
    finally:
        tracemalloc.stop()


def decode_lie(message: type[Message], version: int, length: bytes) -> None:
    """The lie in place of each of the first bytes, where lengths and counts of the outer fields are."""
    data = encode(message(), version) + bytes(16)
    for position in range(min(len(data), 24)):
        read_any(message, version, data[:position] + length + data[position:])
