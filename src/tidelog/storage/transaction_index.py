"""The aborted transactions whose abort marker lies in one segment (`.txnindex`).

An entry is (version: int16 = 0, producer id, first offset, last offset, last stable offset: int64 each), big-endian,
34 bytes. The last offset is the marker's and rises strictly. The last stable offset is what it was once the marker was
written: no transaction that was open then lies below it, so a reader stops at the first entry whose last stable offset
reaches the end of what it reads.

The file is made with the first entry: most segments have none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.model.ids import Offset, ProducerId
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.files import File, Files
from tidelog.storage.index_file import IndexFile

ENTRY = struct.Struct(">hqqqq")
ENTRY_BYTES = ENTRY.size
VERSION = 0

# How much of the file is in memory at once: a busy segment may have aborted a million transactions.
CHUNK_BYTES = ENTRY_BYTES * 1024


class AbortedTransaction(NamedTuple):
    """One aborted transaction, as a fetch answer names it and as the last stable offset needs it."""

    producer_id: ProducerId
    first_offset: Offset
    last_offset: Offset
    last_stable_offset: Offset


class AbortedSearch(NamedTuple):
    """The aborted transactions in a range of offsets. If not `is_complete`, the next segment may have more of them."""

    transactions: list[AbortedTransaction]
    is_complete: bool


class TransactionIndex(IndexFile):
    """The `.txnindex` of one segment."""

    def __init__(self, files: Files, path: str, base_offset: int = 0) -> None:
        super().__init__(files, path, base_offset)
        self._file: File | None = None
        # None until somebody asked. Then the number of whole entries: the torn one of a crash is overwritten.
        self._entries: int | None = None
        self._last_offset = Offset(-1)

    @property
    def entries(self) -> int:
        if self._entries is None:
            self._load()
        return self._entries or 0

    @property
    def is_empty(self) -> bool:
        return self.entries == 0

    @property
    def last_offset(self) -> Offset | None:
        """Of the last marker."""
        return self._last_offset if self.entries else None

    def append(self, transaction: AbortedTransaction) -> None:
        """Add a transaction whose marker is behind all others: ValueError otherwise."""
        entries = self.entries
        if entries and transaction.last_offset <= self._last_offset:
            raise ValueError(
                f"{self.path} cannot take a marker at {transaction.last_offset} after one at {self._last_offset}"
            )
        self._opened(create=True).pwritev([ENTRY.pack(VERSION, *transaction)], entries * ENTRY_BYTES)
        self._entries = entries + 1
        self._last_offset = transaction.last_offset

    def all_entries(self) -> list[AbortedTransaction]:
        return list(self.each_entry())

    def each_entry(self, first: int = 0) -> Iterator[AbortedTransaction]:
        """The transactions from the entry `first` on, by the offset of their marker.

        `DamagedFileError` where one is of an unknown version.
        """
        end = self.entries * ENTRY_BYTES
        for position in range(first * ENTRY_BYTES, end, CHUNK_BYTES):
            chunk = self._opened().pread(min(CHUNK_BYTES, end - position), position)
            for version, *transaction in ENTRY.iter_unpack(chunk[: len(chunk) // ENTRY_BYTES * ENTRY_BYTES]):
                if version != VERSION:
                    raise DamagedFileError(
                        self.path, f"an entry has version {version}; only version {VERSION} is known"
                    )
                yield AbortedTransaction(*transaction)

    def collect(self, fetch_offset: int, upper_bound: int) -> AbortedSearch:
        """The transactions that have records in [`fetch_offset`, `upper_bound`)."""
        found: list[AbortedTransaction] = []
        if self.entries == 0 or self._last_offset < fetch_offset:
            return AbortedSearch(found, is_complete=False)
        for transaction in self.each_entry(self._first_from(fetch_offset)):
            if transaction.first_offset < upper_bound:
                found.append(transaction)
            if transaction.last_stable_offset >= upper_bound:
                return AbortedSearch(found, is_complete=True)
        return AbortedSearch(found, is_complete=False)

    def _first_from(self, offset: int) -> int:
        """The number of the first entry whose marker is at or above `offset`: a long index is not read through."""
        low, high = 0, self.entries
        while low < high:
            middle = (low + high) // 2
            _, _, _, last_offset, _ = ENTRY.unpack(self._opened().pread(ENTRY_BYTES, middle * ENTRY_BYTES))
            if last_offset < offset:
                low = middle + 1
            else:
                high = middle
        return low

    def truncate_to(self, offset: int) -> None:
        """Remove the transactions whose marker is at or above `offset`."""
        if self.entries == 0 or self._last_offset < offset:
            return
        keep, last_offset = 0, Offset(-1)
        for transaction in self.each_entry():
            if transaction.last_offset >= offset:
                break
            keep, last_offset = keep + 1, transaction.last_offset
        self._opened().truncate(keep * ENTRY_BYTES)
        self._entries, self._last_offset = keep, last_offset

    def truncate_all(self) -> None:
        """Remove all transactions."""
        if self._files.exists(self.path):
            self._opened().truncate(0)
        self._entries, self._last_offset = 0, Offset(-1)

    def sanity_check(self) -> str | None:
        """What is wrong, in one sentence. Reads all entries."""
        if not self._files.exists(self.path):
            return None
        if (size := self._files.size_of(self.path)) % ENTRY_BYTES:
            return f"{self.path} is {size} bytes long, which is no multiple of {ENTRY_BYTES}"
        last_offset = self.base_offset - 1
        try:
            for transaction in self.each_entry():
                if transaction.last_offset <= last_offset or transaction.first_offset > transaction.last_offset:
                    return f"{self.path} has {transaction} behind a marker at {last_offset}"
                last_offset = transaction.last_offset
        except DamagedFileError as error:
            return str(error)
        return None

    def sync(self) -> None:
        if self._files.exists(self.path):
            super().sync()

    def close(self) -> None:
        """The index may be used again: it opens by itself."""
        file, self._file = self._file, None
        self._entries = None
        if file is not None:
            file.close()

    def remove(self) -> bool:
        """Delete the file. False if there was none."""
        self.close()
        return self._files.remove(self.path)

    def _load(self) -> None:
        self._entries = 0
        if self._files.exists(self.path):
            file = self._opened()
            entries = file.size() // ENTRY_BYTES
            if entries:
                _, _, _, last_offset, _ = ENTRY.unpack(file.pread(ENTRY_BYTES, (entries - 1) * ENTRY_BYTES))
                self._last_offset = Offset(last_offset)
            self._entries = entries

    def _opened(self, *, create: bool = False) -> File:
        if self._file is None:
            self._file = self._files.open(self.path, create=create)
        return self._file
