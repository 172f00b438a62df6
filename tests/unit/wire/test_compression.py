from __future__ import annotations

import gzip
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace

import cramjam
import lz4.frame
import pytest
import zstandard
from isal import isal_zlib

from tidelog.wire import compression
from tidelog.wire.batch_errors import CorruptBatchError, DecompressedTooLargeError
from tidelog.wire.compression import LEVELS, Compression, compress, decompress

TEXT = b'{"order": 12345, "state": "paid"} ' * 4000
NOISE = Random(7).randbytes(100_000)
CODECS = [codec for codec in Compression if codec is not Compression.NONE]
XERIAL = b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"


def xerial(*blocks: bytes) -> bytes:
    packed = [bytes(cramjam.snappy.compress_raw(block)) for block in blocks]
    return XERIAL + b"".join(len(block).to_bytes(4) + block for block in packed)


def zstd_stream(data: bytes, *, checksum: bool = False) -> bytes:
    """A frame without its content size, as Java's and librdkafka's producers write it."""
    writer = zstandard.ZstdCompressor(write_checksum=checksum).compressobj()
    return writer.compress(data) + writer.flush()


def bomb(codec: Compression) -> bytes:
    """Some bytes that unpack to 64 MB."""
    return compress(codec, bytes(64 * 1024 * 1024))


@pytest.mark.parametrize("codec", Compression)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, NOISE], ids=["nothing", "a byte", "text", "noise"])
def test_what_is_compressed_unpacks_to_the_same(codec: Compression, data: bytes) -> None:
    for given in (data, bytearray(data), memoryview(data)):
        packed = compress(codec, given)
        assert bytes(decompress(codec, packed)) == data
        assert bytes(decompress(codec, memoryview(packed))) == data


@pytest.mark.parametrize("codec", LEVELS)
def test_every_level_of_kafka_works_and_no_other(codec: Compression) -> None:
    levels = LEVELS[codec]
    for level in {levels[0], levels[0] + 1, *levels[-20:]}:
        assert decompress(codec, compress(codec, TEXT[:500], level)) == TEXT[:500]
    for level in (levels.start - 1, levels.stop):
        with pytest.raises(ValueError, match=f"{level} is none of them"):
            compress(codec, b"", level)


def test_gzip_takes_its_default_by_number_and_lz4_takes_kafkas() -> None:
    assert compress(Compression.GZIP, TEXT, -1) == compress(Compression.GZIP, TEXT)
    assert compress(Compression.LZ4, TEXT, 9) == compress(Compression.LZ4, TEXT)


@pytest.mark.parametrize("codec", [Compression.SNAPPY, Compression.NONE])
def test_a_level_for_a_codec_without_levels_is_refused(codec: Compression) -> None:
    with pytest.raises(ValueError, match="no compression levels"):
        compress(codec, b"", 1)


def test_higher_levels_pack_smaller() -> None:
    text = Path(__file__).read_bytes() * 2
    for codec, low, high in ((Compression.GZIP, 1, 9), (Compression.LZ4, 9, 12), (Compression.ZSTD, -50, 19)):
        assert len(compress(codec, text, high)) < len(compress(codec, text, low))


def test_lz4_is_written_in_independent_blocks_of_64_kb_without_a_content_size() -> None:
    packed = compress(Compression.LZ4, TEXT)

    facts = lz4.frame.get_frame_info(packed)

    assert (facts["block_linked"], facts["block_size_id"], facts["content_size"]) == (False, 4, 0)
    # As Kafka writes it: version 1 and independent blocks, then the block size.
    assert packed[4:6] == b"\x60\x40"


def test_snappy_is_written_in_xerials_blocks_of_32_kb() -> None:
    packed = compress(Compression.SNAPPY, NOISE)

    assert packed.startswith(XERIAL)
    assert (
        decompress(Compression.SNAPPY, xerial(*[NOISE[at : at + 32768] for at in range(0, len(NOISE), 32768)])) == NOISE
    )
    assert len(packed) == len(xerial(*[NOISE[at : at + 32768] for at in range(0, len(NOISE), 32768)]))


def test_bare_snappy_is_read() -> None:
    for data in (b"", b"x", TEXT, NOISE):
        assert decompress(Compression.SNAPPY, bytes(cramjam.snappy.compress_raw(data))) == data


def test_linked_lz4_blocks_are_read() -> None:
    packed = lz4.frame.compress(TEXT, block_linked=True, block_size=lz4.frame.BLOCKSIZE_MAX64KB, content_checksum=True)

    assert decompress(Compression.LZ4, packed) == TEXT


def test_frames_one_after_another_are_read_where_kafka_reads_them() -> None:
    skippable = b"\x53\x2a\x4d\x18" + (5).to_bytes(4, "little") + b"hello"

    assert decompress(Compression.GZIP, gzip.compress(TEXT) + zlib.compress(b"more", wbits=31)) == TEXT + b"more"
    assert decompress(Compression.SNAPPY, xerial(TEXT[:100]) + xerial(b"more")) == TEXT[:100] + b"more"
    for first in (zstandard.compress(TEXT), zstd_stream(TEXT), zstd_stream(TEXT, checksum=True)):
        for second in (zstandard.compress(b"more"), zstd_stream(b"more")):
            assert decompress(Compression.ZSTD, first + skippable + second) == TEXT + b"more"


def test_of_many_gzip_members_none_is_given_all_that_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    given = 0

    class Counting:
        def __init__(self, window_bits: int) -> None:
            self._member = isal_zlib.decompressobj(window_bits)

        def __getattr__(self, name: str) -> object:
            return getattr(self._member, name)

        def decompress(self, data: bytes, max_length: int) -> bytes:
            nonlocal given
            given += len(data)
            return self._member.decompress(data, max_length)

    monkeypatch.setattr(
        compression, "isal_zlib", SimpleNamespace(decompressobj=Counting, IsalError=isal_zlib.IsalError)
    )
    data = b"".join(gzip.compress(b"%d," % number) for number in range(5000)) + gzip.compress(NOISE)

    assert decompress(Compression.GZIP, data) == b"".join(b"%d," % number for number in range(5000)) + NOISE
    # The library copies what it is given and does not need: a hostile megabyte would take seconds.
    assert given < 30 * len(data)


def test_what_follows_an_lz4_frame_is_refused_since_kafka_would_lose_it() -> None:
    packed = compress(Compression.LZ4, TEXT)

    with pytest.raises(CorruptBatchError, match="follow the lz4 frame"):
        decompress(Compression.LZ4, packed + packed)


@pytest.mark.parametrize("data", [TEXT, NOISE, b"x"], ids=["text", "noise", "a byte"])
def test_a_zstd_frame_without_its_size_is_read(data: bytes) -> None:
    assert decompress(Compression.ZSTD, zstd_stream(data), len(data)) == data
    assert decompress(Compression.ZSTD, zstd_stream(data, checksum=True), len(data)) == data


@pytest.mark.parametrize("codec", CODECS)
def test_every_cut_is_noticed(codec: Compression) -> None:
    packed = compress(codec, TEXT[:200] + NOISE[:200])

    for size in range(len(packed)):
        # Between two of its blocks a snappy stream does not know that there was another.
        if codec is Compression.SNAPPY and size == len(XERIAL):
            continue
        with pytest.raises(CorruptBatchError):
            decompress(codec, packed[:size])


def test_every_cut_of_a_zstd_stream_is_noticed() -> None:
    packed = zstd_stream(TEXT + NOISE, checksum=True)

    for size in [*range(40), *range(len(packed) - 40, len(packed))]:
        with pytest.raises(CorruptBatchError):
            decompress(Compression.ZSTD, packed[:size])


@pytest.mark.parametrize("codec", CODECS)
def test_garbage_is_refused_in_one_sentence(codec: Compression) -> None:
    random = Random(codec)
    packed = compress(codec, TEXT[:3000])
    sentences = []
    for _ in range(300):
        damaged = bytearray(packed)
        for _ in range(random.randrange(1, 4)):
            damaged[random.randrange(len(damaged))] = random.randrange(256)
        with suppress(CorruptBatchError):
            decompress(codec, damaged, 10_000)
    for junk in (b"\x81", b"\xff" * 40, random.randbytes(50)):
        with pytest.raises(CorruptBatchError) as caught:
            decompress(codec, junk)
        sentences.append(str(caught.value))
    assert all(sentence and "\n" not in sentence for sentence in sentences)


@pytest.mark.parametrize("codec", CODECS)
def test_the_limit_is_the_last_size_that_is_allowed(codec: Compression) -> None:
    packed = compress(codec, TEXT)

    assert decompress(codec, packed, len(TEXT)) == TEXT
    with pytest.raises(DecompressedTooLargeError, match=f"{len(TEXT) - 1} bytes"):
        decompress(codec, packed, len(TEXT) - 1)


def test_the_limit_holds_without_a_codec_too() -> None:
    assert decompress(Compression.NONE, TEXT, len(TEXT)) is TEXT
    with pytest.raises(DecompressedTooLargeError):
        decompress(Compression.NONE, TEXT, len(TEXT) - 1)


def test_the_limit_counts_all_frames_together() -> None:
    for codec, frame in (
        (Compression.GZIP, gzip.compress(bytes(1000))),
        (Compression.SNAPPY, xerial(bytes(1000))),
        (Compression.ZSTD, zstandard.compress(bytes(1000))),
        (Compression.ZSTD, zstd_stream(bytes(1000))),
    ):
        assert decompress(codec, frame * 3, 3000) == bytes(3000)
        with pytest.raises(DecompressedTooLargeError):
            decompress(codec, frame * 3, 2999)


@pytest.mark.parametrize("codec", CODECS)
def test_a_bomb_stops_at_the_limit_and_takes_no_more_memory(codec: Compression) -> None:
    limit = 1024 * 1024
    packed = bomb(codec)
    streams = [packed, zstd_stream(bytes(64 * 1024 * 1024))] if codec is Compression.ZSTD else [packed]

    for stream in streams:
        tracemalloc.start()
        try:
            with pytest.raises(DecompressedTooLargeError):
                decompress(codec, stream, limit)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        # The packed bytes may be copied, and the last block goes over the limit.
        assert peak < 2 * limit + len(stream) + 512 * 1024


def test_a_claimed_length_alone_allocates_nothing() -> None:
    claims = [
        # Bare snappy of 4 GB - 1, then nothing.
        (Compression.SNAPPY, b"\xff\xff\xff\xff\x0f"),
        (Compression.SNAPPY, XERIAL + b"\x00\x00\x00\x05\xff\xff\xff\xff\x0f"),
        # A block of 2 GB that is not there.
        (Compression.SNAPPY, XERIAL + b"\x7f\xff\xff\xff"),
        # A zstd frame of 2^60 bytes.
        (Compression.ZSTD, b"\x28\xb5\x2f\xfd\xe0" + (1 << 60).to_bytes(8, "little") + b"\x01\x00\x00"),
        # One that needs a window of 2 TB.
        (Compression.ZSTD, b"\x28\xb5\x2f\xfd\x00\xf8\x09\x00\x00x\x01\x00\x00"),
    ]
    tracemalloc.start()
    try:
        for codec, data in claims:
            with pytest.raises(CorruptBatchError):
                decompress(codec, data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 1024 * 1024
