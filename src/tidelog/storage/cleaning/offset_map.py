"""The last offset of each key in the dirty part of a log, in memory that is bounded (`log.cleaner.dedupe.buffer.size`).

A key is known by 128 bits of a keyed hash, not by its bytes: 24 bytes are enough for a key of any length, and two keys are taken
for one another with a probability of about 10^-25 in a log of a billion keys. Kafka does the same with MD5; the salt, which is
drawn anew for every cleaning, also keeps anybody from writing such keys on purpose.

The map may be full before the dirty part ends. Then it covers the log up to `latest_offset`, what lies behind is left as it is,
and the next cleaning begins there.
"""

from __future__ import annotations

from tidelog.kernel_choice import load

kernel = load("tidelog.storage.cleaning.kernels", "cleaning_kernel")

# What Kafka limits the map of one thread to.
MAP_BYTES_MAX = 2**31 - 1
# Less than this is not worth a hash table: a log of a few kilobytes gets it whatever the configuration says.
SLOTS_MIN = 16


class OffsetMap:
    """Of one cleaning. `latest_offset` is the last offset that it covers."""

    def __init__(self, bytes_max: int, load_factor: float, first_offset: int, keys_max: int, salt: bytes) -> None:
        """A map within `bytes_max`, and no larger than so many keys need, of what comes from `first_offset` on."""
        wanted = int(keys_max / load_factor) + 2
        slots = max(SLOTS_MIN, min(min(bytes_max, MAP_BYTES_MAX) // kernel.SLOT_BYTES, wanted))
        self.entries_max = max(1, min(int(slots * load_factor), slots - 1))
        self.latest_offset = first_offset - 1
        self._slots: int = slots
        self.table = kernel.OffsetTable(slots, salt)

    def __len__(self) -> int:
        entries: int = len(self.table)
        return entries

    @property
    def utilization(self) -> float:
        """How full it is, from 0 to 1."""
        return len(self) / self._slots
