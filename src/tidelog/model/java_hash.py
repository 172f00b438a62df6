"""Java's hash of a string, by which Kafka chooses the partition that keeps a group or a transactional id."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

_BITS = 0xFFFF_FFFF
_SIGN = 0x8000_0000


def string_hash(text: str) -> int:
    """`String.hashCode`: over the text's UTF-16 units, as a signed 32-bit number."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for position in range(0, len(units), 2):
        value = (31 * value + (units[position] << 8 | units[position + 1])) & _BITS
    return value - (_BITS + 1) if value & _SIGN else value


def hash_set_order(texts: Iterable[str]) -> list[str]:
    """Texts, at most a dozen, in the order in which Java's `HashSet` of them lists them: by bucket of 16, then as they came."""

    def bucket(text: str) -> int:
        value = string_hash(text) & _BITS
        return (value ^ value >> 16) & 15

    return sorted(dict.fromkeys(texts), key=bucket)


# The same few groups ask over and over again.
@lru_cache(maxsize=16_384)
def partition_of(key: str, partition_count: int) -> int:
    """The partition of a coordinator's topic that a key belongs to."""
    value = string_hash(key)
    # The one number whose absolute value an int of Java cannot hold counts as 0.
    return 0 if value == -_SIGN else abs(value) % partition_count
