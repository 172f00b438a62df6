# mypy: disable-error-code="untyped-decorator, valid-type, no-any-return, index, attr-defined"
"""The last offset of each key in the dirty part of a log, in memory that is bounded (`log.cleaner.dedupe.buffer.size`).

A key is known by 128 bits of a keyed hash, not by its bytes: 24 bytes are enough for a key of any length, and two keys are taken
for one another with a probability of about 10^-25 in a log of a billion keys. Kafka does the same with MD5; the salt, which is
drawn anew for every cleaning, also keeps anybody from writing such keys on purpose.

The map may be full before the dirty part ends. Then it covers the log up to `latest_offset`, what lies behind is left as it is,
and the next cleaning begins there.

The compiled twin has a table of its own and works without the interpreter's lock; the plain one has a dictionary. They hash keys
differently: what a map holds never leaves the process.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Cython reads it when it compiles; to run, a plain twin needs no Cython
    import cython
else:
    from tidelog import plain_cython as cython

if cython.compiled:
    from cython.cimports.libc.stdlib import calloc, free
    from cython.cimports.libc.string import memcpy

# What Kafka limits the map of one thread to.
MAP_BYTES_MAX = 2**31 - 1
# Less than this is not worth a hash table: a log of a few kilobytes gets it whatever the configuration says.
SLOTS_MIN = 16
# What a slot takes: 128 bits of hash and an offset; or what a dictionary takes for a key of 16 bytes and a number.
SLOT_BYTES = 24 if cython.compiled else 240
SALT_BYTES = 16

# SipHash's own: "somepseudorandomlygeneratedbytes", and what makes it one of 128 bits.
_SIP0 = cython.declare(cython.ulonglong, 0x736F6D6570736575)
_SIP1 = cython.declare(cython.ulonglong, 0x646F72616E646F6D ^ 0xEE)
_SIP2 = cython.declare(cython.ulonglong, 0x6C7967656E657261)
_SIP3 = cython.declare(cython.ulonglong, 0x7465646279746573)
_HASHED_PROBES = cython.declare(cython.ulonglong, 16)


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def _sip_round(v: cython.pointer[cython.ulonglong]) -> cython.void:
    v[0] += v[1]
    v[1] = ((v[1] << 13) | (v[1] >> 51)) ^ v[0]
    v[0] = (v[0] << 32) | (v[0] >> 32)
    v[2] += v[3]
    v[3] = ((v[3] << 16) | (v[3] >> 48)) ^ v[2]
    v[0] += v[3]
    v[3] = ((v[3] << 21) | (v[3] >> 43)) ^ v[0]
    v[2] += v[1]
    v[1] = ((v[1] << 17) | (v[1] >> 47)) ^ v[2]
    v[2] = (v[2] << 32) | (v[2] >> 32)


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def _hash(
    key0: cython.ulonglong,
    key1: cython.ulonglong,
    data: cython.pointer[cython.const[cython.uchar]],
    start: cython.Py_ssize_t,
    length: cython.Py_ssize_t,
) -> tuple[cython.ulonglong, cython.ulonglong]:
    """SipHash-2-4 with 128 bits of result. Only the compiled twin calls it."""
    v: cython.ulonglong[4] = [key0 ^ _SIP0, key1 ^ _SIP1, key0 ^ _SIP2, key1 ^ _SIP3]
    word: cython.ulonglong = 0
    first: cython.ulonglong
    at: cython.Py_ssize_t = start
    end: cython.Py_ssize_t = start + length
    _number: cython.int
    while end - at >= 8:
        memcpy(cython.address(word), data + at, 8)
        at += 8
        v[3] ^= word
        _sip_round(v)
        _sip_round(v)
        v[0] ^= word
    word = 0
    memcpy(cython.address(word), data + at, end - at)
    # The top byte is free: of a last piece there are seven bytes at most.
    word |= cython.cast(cython.ulonglong, length) << 56
    v[3] ^= word
    _sip_round(v)
    _sip_round(v)
    v[0] ^= word
    v[2] ^= 0xEE
    for _number in range(4):
        _sip_round(v)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    for _number in range(4):
        _sip_round(v)
    return first, v[0] ^ v[1] ^ v[2] ^ v[3]


class OffsetMap:
    """Of one cleaning. `latest_offset` is the last offset that it covers.

    It takes at most `entries_max` keys, which whoever puts one in looks after: there is a free slot then.
    """

    def __init__(self, bytes_max: int, load_factor: float, first_offset: int, keys_max: int, salt: bytes) -> None:
        """A map within `bytes_max`, and no larger than so many keys need, of what comes from `first_offset` on."""
        if len(salt) != SALT_BYTES:
            raise ValueError(f"an offset map needs {SALT_BYTES} bytes of salt")
        wanted = int(keys_max / load_factor) + 2
        self.slots = max(SLOTS_MIN, min(min(bytes_max, MAP_BYTES_MAX) // SLOT_BYTES, wanted))
        self.entries_max = max(1, min(int(self.slots * load_factor), self.slots - 1))
        self.entries = 0
        self.latest_offset = first_offset - 1
        self.salt = salt
        self.offsets: dict[bytes, int] = {}
        if cython.compiled:
            self.key0 = int.from_bytes(salt[:8], "little")
            self.key1 = int.from_bytes(salt[8:], "little")
            self.words = cython.cast(cython.pointer[cython.ulonglong], calloc(self.slots, 24))
            if self.words is cython.NULL:
                raise MemoryError(f"there is no memory for a map of {self.slots} keys")

    if cython.compiled:

        def __dealloc__(self) -> None:
            free(self.words)

    def __len__(self) -> int:
        return self.entries

    @property
    def utilization(self) -> float:
        """How full it is, from 0 to 1."""
        return len(self) / self.slots

    def put(
        self,
        data: cython.pointer[cython.const[cython.uchar]],
        start: cython.Py_ssize_t,
        length: cython.Py_ssize_t,
        offset: cython.longlong,
    ) -> None:
        """Note where the key that is at `start` of `data` was written last."""
        first: cython.ulonglong
        second: cython.ulonglong
        slot: cython.pointer[cython.ulonglong]
        if cython.compiled:
            first, second = _hash(self.key0, self.key1, data, start, length)
            slot = self.find(first, second)
            if slot[2] == 0:
                slot[0] = first
                slot[1] = second
                self.entries += 1
            slot[2] = offset + 1
        else:
            self.offsets[blake2b(data[start : start + length], digest_size=16, key=self.salt).digest()] = offset
            self.entries = len(self.offsets)

    def last_offset(
        self, data: cython.pointer[cython.const[cython.uchar]], start: cython.Py_ssize_t, length: cython.Py_ssize_t
    ) -> cython.longlong:
        """Of the key that is at `start` of `data`; -1 where it is not in the map."""
        first: cython.ulonglong
        second: cython.ulonglong
        slot: cython.pointer[cython.ulonglong]
        if cython.compiled:
            first, second = _hash(self.key0, self.key1, data, start, length)
            slot = self.find(first, second)
            return cython.cast(cython.longlong, slot[2]) - 1
        else:  # noqa: RET505 - the compiler sees one of the two only
            return self.offsets.get(blake2b(data[start : start + length], digest_size=16, key=self.salt).digest(), -1)

    if cython.compiled:

        def find(self, first: cython.ulonglong, second: cython.ulonglong) -> cython.pointer[cython.ulonglong]:
            """Where the key with this hash is, or would be."""
            slots: cython.ulonglong = self.slots
            probe: cython.ulonglong = 0
            at: cython.ulonglong = first % slots
            words: cython.pointer[cython.ulonglong]
            while True:
                words = self.words + 3 * at
                # Offsets are stored plus one, so that 0 is a slot nobody has used.
                if words[2] == 0 or (words[0] == first and words[1] == second):
                    return words
                probe += 1
                # First here and there, so that keys do not pile up in a table that is nearly full; then one after the other, so
                # that the free slot is found in the end.
                at = (first + probe * second) % slots if probe < _HASHED_PROBES else (at + 1) % slots
