"""What can be wrong with the bytes of a record batch.

    CorruptBatchError               the bytes are not a whole, consistent batch
    ├── UnsupportedMagicError       they are a batch of another format than magic 2
    └── DecompressedTooLargeError   its records unpack to more than the reader allows

Each message is one plain sentence. Nothing else leaves the readers of this package for bad bytes.
"""

from __future__ import annotations


class CorruptBatchError(Exception):
    """The bytes are not a whole, consistent record batch."""


class UnsupportedMagicError(CorruptBatchError):
    """A batch of the formats before magic 2, which Kafka 4 no longer writes, or of one that does not exist yet."""

    def __init__(self, magic: int) -> None:
        super().__init__(f"the batch has magic {magic}; only magic 2 is supported")
        self.magic = magic


class DecompressedTooLargeError(CorruptBatchError):
    """Compressed records that unpack to more bytes than the caller allows: a decompression bomb."""

    def __init__(self, bytes_max: int) -> None:
        super().__init__(f"the compressed records unpack to more than the allowed {bytes_max} bytes")
        self.bytes_max = bytes_max
