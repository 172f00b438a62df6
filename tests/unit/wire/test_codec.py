# Declarations are read at run time: no `from __future__ import annotations` here.

from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from tidelog.wire.codec import decode, decode_from, encode, encode_parts, parts_bytes, source_of
from tidelog.wire.errors import EncodeError, MalformedError, UnsupportedVersionError
from tidelog.wire.schema import (
    Array,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Message,
    Records,
    String,
    Struct,
    UInt16,
    UInt32,
    Uuid,
    field,
    since,
    tagged,
    until,
)
from tidelog.wire.typed.message import RECORDS_COPIED_BYTES_MAX

UUID_BYTES = bytes(range(16))


class Point(Struct):
    x: Int16
    label: String | None = None


class Everything(Message, versions="0-1", flexible="1+"):
    flag: Bool
    tiny: Int8
    port: UInt16
    crc: UInt32
    offset: Int64
    share: Float64
    topic_id: Uuid
    name: String
    data: Bytes
    numbers: Array[Int32]
    names: Array[String]
    points: Array[Point]
    point: Point
    maybe: Point | None = None


EVERYTHING = Everything(
    flag=True,
    tiny=-2,
    port=0xFFFE,
    crc=0xFFFF_FFFD,
    offset=-3,
    share=1.5,
    topic_id=UUID_BYTES,
    name="é",
    data=b"ab",
    numbers=[1, -1],
    names=["", "z"],
    points=[Point(x=7, label="p"), Point(x=8)],
    point=Point(x=9),
    maybe=Point(x=10),
)

FIXED = "01fefffefffffffdfffffffffffffffd3ff8000000000000" + UUID_BYTES.hex()


def test_the_old_form_of_every_type() -> None:
    written = (
        FIXED
        + "0002c3a9"  # name: two bytes of length
        + "00000002"
        "6162"  # data: four
         + "00000002"
        "00000001"
        "ffffffff" + "00000002"
        "0000"
        "00017a" + "00000002"
        "0007"
        "000170"
        "0008"
        "ffff" + "0009"
        "ffff" + "01"
        "000a"
        "ffff"
    )

    assert encode(EVERYTHING, 0).hex() == written
    assert decode(Everything, 0, bytes.fromhex(written)) == EVERYTHING


def test_the_compact_form_of_every_type() -> None:
    written = (
        FIXED
        + "03c3a9"  # lengths and counts are one more than they mean
        + "03"
        "6162" + "03"
        "00000001"
        "ffffffff" + "03"
        "01"
        "027a" + "03"
        "0007"
        "0270"
        "00"
        "0008"
        "00"
        "00"  # each struct ends with a count of tags
         + "0009"
        "00"
        "00" + "01"
        "000a"
        "00"
        "00" + "00"
    )

    assert encode(EVERYTHING, 1).hex() == written
    assert decode(Everything, 1, bytes.fromhex(written)) == EVERYTHING


def test_lengths_of_more_than_one_byte() -> None:
    value = replace(EVERYTHING, name="n" * 127, data=bytes(20_000), numbers=list(range(300)))

    data = encode(value, 1)

    assert b"\x80\x01" + b"n" * 127 in data
    assert decode(Everything, 1, data) == value


class Tags(Message, versions="0-2", flexible="1+"):
    plain: Int16
    number: Int32 = tagged(0, 1, default=-1)
    name: String | None = tagged(1, 1, default=None)
    point: Point = tagged(3, 2, default_factory=Point)
    maybe: Point | None = tagged(4, 2, default_factory=Point)
    ids: Array[Int32] = tagged(5, 2, default=[], ignorable=True)


def test_tagged_fields_are_sent_only_when_they_say_something() -> None:
    assert encode(Tags(plain=1), 1).hex() == "000100"
    assert encode(Tags(plain=1, number=5), 1).hex() == "000101000400000005"
    assert encode(Tags(plain=1, number=5, name="n"), 1).hex() == "0001020004000000050102026e"
    assert encode(Tags(plain=1, ids=[3]), 2).hex() == "00010105050200000003"


def test_a_tagged_struct_that_may_be_null_begins_with_a_varint() -> None:
    assert encode(Tags(plain=1, maybe=None), 2).hex() == "000101040100"
    assert encode(Tags(plain=1, maybe=Point(x=2)), 2).hex() == "00010104050100020000"
    for value in (Tags(plain=1, maybe=None), Tags(plain=1, maybe=Point(x=2, label="l"))):
        assert decode(Tags, 2, encode(value, 2)) == value


def test_unknown_tags_are_skipped() -> None:
    # Tag 3 is declared from version 2 on; 9 and 300 never.
    data = bytes.fromhex("0001040004000000050302ffff0900ac0203616263")

    assert decode(Tags, 1, data) == Tags(plain=1, number=5)


def test_unknown_tags_inside_a_struct_without_any_are_skipped() -> None:
    plain = encode(EVERYTHING, 1)

    assert decode(Everything, 1, plain[:-1] + bytes.fromhex("020001ff0700")) == EVERYTHING


@pytest.mark.parametrize(
    ("tags", "sentence"),
    [
        ("02010100000400000005", "tags must rise"),
        ("02000400000005000400000005", "tags must rise"),
        ("0100050000000500", "does not fill the size"),
        ("01000300000005", "does not fill the size"),
        ("01090500", "a length of 5 bytes goes past the 1"),
        ("7f0900", "127 elements do not fit"),
        ("0100", "1 elements do not fit"),
        ("ffffffff0f", "elements do not fit"),
        ("ffffffffff", "32 bits"),
    ],
)
def test_a_wrong_tagged_section_is_malformed(tags: str, sentence: str) -> None:
    with pytest.raises(MalformedError, match=sentence):
        decode(Tags, 1, bytes.fromhex("0001" + tags))


class Aging(Message, versions="0-3", flexible="3+"):
    kept: Int16
    old: String = until(1, default="")
    new: Int32 = since(2, default=-1)
    polite: Int64 = since(2, default=0, ignorable=True)
    points: Array[Point] = since(2)


def test_what_a_version_lacks_reads_as_its_default() -> None:
    assert decode(Aging, 0, bytes.fromhex("000700016f")) == Aging(kept=7, old="o", points=[])
    assert decode(Aging, 2, bytes.fromhex("000700000001000000000000000200000000")) == Aging(
        kept=7, new=1, polite=2, points=[]
    )


@pytest.mark.parametrize(
    ("message", "version", "name"),
    [
        (Aging(kept=1, new=4, points=[]), 1, "new"),
        (Aging(kept=1, points=[Point(x=1)]), 0, "points"),
        (Aging(kept=1, old="o", points=[]), 2, "old"),
        (Tags(plain=1, number=3), 0, "number"),
        (Tags(plain=1, point=Point(x=1)), 1, "point"),
    ],
)
def test_a_value_that_a_version_cannot_carry_is_an_error(message: Message, version: int, name: str) -> None:
    with pytest.raises(UnsupportedVersionError, match=rf"v{version}, {name}: this version cannot carry"):
        encode(message, version)


def test_an_ignorable_value_is_left_out() -> None:
    assert encode(Aging(kept=1, polite=9, points=[]), 0) == encode(Aging(kept=1, points=[]), 0)
    assert encode(Tags(plain=1, ids=[1]), 0) == b"\0\x01"


@pytest.mark.parametrize("version", [-1, 2, 32_767])
def test_a_version_that_does_not_exist(version: int) -> None:
    with pytest.raises(UnsupportedVersionError, match=f"Everything has the versions 0-1, not version {version}"):
        decode(Everything, version, b"")
    with pytest.raises(UnsupportedVersionError):
        encode(EVERYTHING, version)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"tiny": 128}, "Everything v1, flag to name: "),  # packed with its neighbours
        ({"port": -1}, "Everything v1, flag to name: "),
        ({"name": None}, "Everything v1, name: "),
        ({"name": "n" * 32_768}, "Everything v1, name: a string of 32768 bytes"),
        ({"name": "\ud800"}, "Everything v1, name: "),
        ({"topic_id": b"short"}, "Everything v1, topic_id: a UUID takes 16 bytes, not 5"),
        ({"numbers": [2**31]}, "Everything v1, numbers: "),
        ({"numbers": None}, "Everything v1, numbers: "),
        ({"points": [Point(x=1, label="n" * 32_768)]}, "Everything v1, points.label: a string"),
        ({"point": None}, "Everything v1, point"),
    ],
)
def test_a_value_that_its_field_cannot_hold_is_an_error(change: dict[str, object], sentence: str) -> None:
    message = replace(EVERYTHING, **change)

    with pytest.raises(EncodeError) as raised:
        encode(message, 1)
    assert str(raised.value).startswith(sentence)


class Names(Message, versions="0-1", flexible="1+"):
    name: String
    maybe: String | None
    sometimes: String | None = field(nullable="1+")
    points: Array[Point]
    uuids: Array[Uuid]


@pytest.mark.parametrize(
    ("version", "written", "sentence"),
    [
        (0, "ffff", "name: null is not allowed"),
        (0, "fffe", "name: a length of -2 is negative"),
        (0, "00036161", "name: a length of 3 bytes goes past the 2"),
        (0, "0001ff", "name: a string is not UTF-8"),
        (0, "0000fffe", "maybe: a length of -2 is negative"),
        (0, "0000ffffffff", "sometimes: null is not allowed"),
        (0, "0000ffff0000ffffffff", "points: null is not allowed"),
        (0, "0000ffff000080000000", "points: a count of -2147483648 is negative"),
        (0, "0000ffff00007fffffff0000", "points: 2147483647 elements do not fit into the 2 bytes"),
        (0, "0000ffff0000000000010001", "points: 1 elements do not fit into the 2 bytes"),
        (0, "0000ffff0000000000010001000461", "points.label: a length of 4 bytes"),
        (0, "0000ffff0000000000000000000100", "uuids: 1 elements do not fit into the 1 bytes"),
        (1, "00", "name: null is not allowed"),
        (1, "80", "name: the bytes end"),
        (1, "ffffffffff01", "name: an unsigned varint does not fit 32 bits"),
        (1, "818002" + "61" * 32_768, "name: a string of 32768 bytes is longer"),
        (1, "010000ffffffff0f", "points: 4294967294 elements do not fit"),
    ],
)
def test_hostile_bytes(version: int, written: str, sentence: str) -> None:
    with pytest.raises(MalformedError) as raised:
        decode(Names, version, bytes.fromhex(written))
    assert str(raised.value).startswith(f"Names v{version}, {sentence}")


class Carrier(Message, versions="0-1", flexible="1+"):
    before: Int32
    records: Records | None
    after: Int32


@dataclass
class FileRegion:
    count: int


def test_decoded_records_share_the_buffer() -> None:
    buffer = bytearray(encode(Carrier(before=1, records=b"abc", after=2), 0))

    records = decode(Carrier, 0, memoryview(buffer)).records
    buffer[8:11] = b"xyz"

    assert isinstance(records, memoryview)
    assert bytes(records) == b"xyz"


def test_other_fields_outlive_the_buffer() -> None:
    buffer = bytearray(encode(EVERYTHING, 1))

    decoded = decode(Everything, 1, memoryview(buffer))
    buffer[:] = bytes(len(buffer))

    assert decoded == EVERYTHING


@pytest.mark.parametrize("version", [0, 1])
def test_a_file_region_is_passed_on(version: int) -> None:
    region = FileRegion(count=3)

    parts = encode_parts(Carrier(before=1, records=region, after=2), version)

    before, passed, after = parts
    assert passed is region
    assert parts_bytes(parts) == len(encode(Carrier(before=1, records=b"abc", after=2), version))
    assert isinstance(before, bytes)
    assert isinstance(after, bytes)
    assert decode(Carrier, version, before + b"abc" + after) == Carrier(before=1, records=b"abc", after=2)


def test_large_records_are_a_part_of_their_own_and_small_ones_are_not() -> None:
    large = memoryview(bytes(RECORDS_COPIED_BYTES_MAX + 1))
    small = memoryview(bytes(RECORDS_COPIED_BYTES_MAX))

    assert encode_parts(Carrier(before=1, records=large, after=2), 1)[1] is large
    assert len(encode_parts(Carrier(before=1, records=small, after=2), 1)) == 1
    assert encode_parts(Carrier(before=1, records=None, after=2), 1) == [bytes.fromhex("00000001000000000200")]


def test_a_file_region_cannot_become_bytes() -> None:
    with pytest.raises(EncodeError, match="encode_parts"):
        encode(Carrier(before=1, records=FileRegion(3), after=2), 0)


def test_a_message_can_stand_among_other_bytes() -> None:
    data = encode(Carrier(before=1, records=b"abc", after=2), 0)

    message, position = decode_from(Carrier, 0, b"??" + data + b"?", 2)

    assert message.after == 2
    assert position == 2 + len(data)
    with pytest.raises(MalformedError, match="Carrier v0: 1 bytes follow"):
        decode(Carrier, 0, data + b"?")


def test_what_is_generated_can_be_read() -> None:
    source = source_of(Carrier, 1)

    assert "def decode_Carrier_v1(" in source
    assert "def encode_Carrier_v1(" in source


def test_fields_of_fixed_size_are_read_in_one_go() -> None:
    assert "unpack_from_obHIqd" in source_of(Everything, 0)
