"""Which dead letters of one partition have gone, as one committed offset says it. Pure.

    offset      the first letter that has not gone
    metadata    behind it, which ranges of offsets stay, where later letters have gone: "1:" and base64 of zlib of varints

Letters go out of order, because a replay chooses them: by reason, by time, so many at most. What a group remembers is one offset
with a text, and both are part of the transaction in which letters go.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from bisect import bisect_right
from collections.abc import Iterable

import msgspec

# What brokers take unless `offset.metadata.max.bytes` says otherwise.
METADATA_CHARACTERS_MAX = 4096
# Far more ranges than fit; a text that was made to unpack to more is nobody's of ours.
_UNPACKED_BYTES_MAX = 1024 * 1024
_VERSION = "1:"


class ReplayProgress(msgspec.Struct, frozen=True):
    left: tuple[tuple[int, int], ...]
    """Ranges (first offset, the one behind the last) of letters that stay, rising; what is not a letter may be in them."""
    end: int
    """Behind the last that was looked at."""

    @property
    def offset(self) -> int:
        """What is committed: nothing before it is ever looked at again."""
        return self.left[0][0] if self.left else self.end

    def has_gone(self, offset: int) -> bool:
        if offset >= self.end:
            return False
        index = bisect_right(self.left, (offset, self.end)) - 1
        return index < 0 or offset >= self.left[index][1]

    def metadata(self) -> str:
        numbers: list[int] = []
        at = self.offset
        for first, behind in self.left:
            numbers += [first - at, behind - first]
            at = behind
        numbers.append(self.end - at)
        if len(numbers) == 1:
            return ""
        return _VERSION + base64.b64encode(zlib.compress(_varints(numbers), 9)).decode()


def progress_of(offset: int, metadata: str) -> ReplayProgress:
    """What was committed. Somebody else's text, as `groups reset-offsets` leaves none, means that nothing behind it has gone."""
    numbers = _numbers(metadata)
    if len(numbers) % 2 == 0:
        return ReplayProgress((), offset)
    left, at = [], offset
    for gap, length in zip(numbers[:-1:2], numbers[1::2], strict=True):
        left.append((at + gap, at + gap + length))
        at += gap + length
    return ReplayProgress(tuple(left), at + numbers[-1])


class Scan:
    """A look at letters from a committed position on, in the order of their offsets."""

    def __init__(self, before: ReplayProgress) -> None:
        self._before = before
        self._left: list[tuple[int, int]] = []
        self._is_open = False
        self._position = before.offset

    def has_gone(self, offset: int) -> bool:
        return self._before.has_gone(offset)

    def stays(self, offset: int) -> None:
        if self._is_open:
            self._left[-1] = (self._left[-1][0], offset + 1)
        else:
            self._left.append((offset, offset + 1))
        self._is_open = True
        self._position = offset + 1

    def goes(self, offset: int) -> None:
        """It has gone, now or before."""
        self._is_open = False
        self._position = offset + 1

    def passes(self, offset: int) -> None:
        """It is no letter of the pipeline's."""
        self._position = offset + 1

    @property
    def progress(self) -> ReplayProgress:
        """Up to what was looked at; from there on as it was."""
        rest = [(max(first, self._position), behind) for first, behind in self._before.left if behind > self._position]
        return ReplayProgress((*self._left, *rest), max(self._position, self._before.end))


def _varints(numbers: Iterable[int]) -> bytes:
    packed = bytearray()
    for number in numbers:
        while number >= 0x80:
            packed.append(number & 0x7F | 0x80)
            number >>= 7  # noqa: PLW2901 - the rest of it
        packed.append(number)
    return bytes(packed)


def _numbers(metadata: str) -> list[int]:
    """Empty for what is not ours."""
    if not metadata.startswith(_VERSION):
        return []
    try:
        packed = base64.b64decode(metadata.removeprefix(_VERSION), validate=True)
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(packed, _UNPACKED_BYTES_MAX)
    except (binascii.Error, ValueError, zlib.error):
        return []
    if not unpacker.eof:
        return []
    numbers, number, shift = [], 0, 0
    for each in data:
        number |= (each & 0x7F) << shift
        shift += 7
        if each < 0x80:
            numbers.append(number)
            number = shift = 0
    return numbers
