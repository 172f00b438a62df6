"""The requests that are sent here, as frames: their fields by hand, because thousands of the same are sent at once."""

from __future__ import annotations

import struct

API_VERSIONS_KEY = 18
METADATA_KEY = 3
FETCH_KEY = 1

_CLIENT_ID = b"fairness"


def api_versions(correlation_id: int) -> bytes:
    """ApiVersions v0: hardly a byte, and the same answer every time."""
    return _framed(API_VERSIONS_KEY, 0, correlation_id, b"")


def metadata(correlation_id: int, topic: str | None) -> bytes:
    """Metadata v1 of one topic, or of all."""
    if topic is None:
        return _framed(METADATA_KEY, 1, correlation_id, struct.pack(">i", -1))
    return _framed(METADATA_KEY, 1, correlation_id, struct.pack(">i", 1) + _string(topic))


def fetch(correlation_id: int, topic: str, partition: int, max_bytes: int) -> bytes:
    """Fetch v4 from the start of a partition, as a consumer without a session sends it."""
    head = struct.pack(">iiiib", -1, 500, 1, max_bytes, 0)
    wanted = struct.pack(">i", 1) + _string(topic) + struct.pack(">iiqi", 1, partition, 0, max_bytes)
    return _framed(FETCH_KEY, 4, correlation_id, head + wanted)


def _framed(api_key: int, version: int, correlation_id: int, body: bytes) -> bytes:
    request = struct.pack(">hhih", api_key, version, correlation_id, len(_CLIENT_ID)) + _CLIENT_ID + body
    return struct.pack(">i", len(request)) + request


def _string(text: str) -> bytes:
    encoded = text.encode()
    return struct.pack(">h", len(encoded)) + encoded
