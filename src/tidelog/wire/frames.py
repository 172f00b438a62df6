"""Whole requests and responses as they cross a connection: four bytes of size, a header, a body.

A server reads the header first, since it says how to read the rest:

    header, position = read_request_header(frame)
    if is_unknown_api_versions(header): answer `unsupported_version_response()` in v0     (KIP-511)
    request = read_request(frame, header, position)

`frame` is what follows the size. Nothing here reads from a socket or limits a size; that is for whoever owns the socket.
"""

from __future__ import annotations

import struct

from tidelog.model.errors import ErrorCode
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.codec import Part, decode_from, encode, encode_parts, parts_bytes
from tidelog.wire.errors import MalformedError, UnsupportedVersionError
from tidelog.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from tidelog.wire.messages.headers import RequestHeader, ResponseHeader
from tidelog.wire.schema import Message, Request, Response
from tidelog.wire.varint import Buffer

SIZE_BYTES = 4

_SIZE = struct.Struct(">i")
_KEY_AND_VERSION = struct.Struct(">hh")
_UNSUPPORTED_VERSION = ErrorCode.UNSUPPORTED_VERSION.to_bytes(2, "big")


def read_request_header(frame: Buffer) -> tuple[RequestHeader, int]:
    """The header of a request and the position of its body.

    Raises `UnknownApiError` for a key that does not exist, and `UnsupportedVersionError` for a version that the API does
    not have; but for ApiVersions any version is read, in order to be answered.
    """
    if len(frame) < _KEY_AND_VERSION.size:
        raise MalformedError(f"a request of {len(frame)} bytes is too short for a header")
    key, version = _KEY_AND_VERSION.unpack_from(frame)
    asked = api(key)
    if version not in asked.versions and asked.key is not ApiKey.API_VERSIONS:
        raise UnsupportedVersionError(f"{asked.name} has the versions {asked.versions}, not version {version}")
    return decode_from(RequestHeader, asked.request_header_version(version), frame)


def is_unknown_api_versions(header: RequestHeader) -> bool:
    """Whether a client asks for ApiVersions in a version that does not exist here: its body must not be read."""
    key = header.request_api_key
    return key == ApiKey.API_VERSIONS and header.request_api_version not in api(key).versions


def unsupported_version_response() -> ApiVersionsResponse:
    """The answer to that, to be sent in v0: the error, and the versions of ApiVersions that the client may try again."""
    asked = api(ApiKey.API_VERSIONS)
    lowest, highest = asked.announced_versions
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=[ApiVersion(api_key=asked.key, min_version=lowest, max_version=highest)],
        throttle_time_ms=0,
    )


def read_request(frame: Buffer, header: RequestHeader, position: int) -> Request:
    """The body of a request. Bytes after its end are ignored, as Kafka does."""
    return decode_from(api(header.request_api_key).request, header.request_api_version, frame, position)[0]


def read_response(frame: Buffer, key: int, version: int) -> tuple[int, Response]:
    """A response's correlation id and body, to a request whose API and version the client remembers."""
    asked = api(key)
    header, position = decode_from(ResponseHeader, asked.response_header_version(version), frame)
    if asked.key is ApiKey.API_VERSIONS and bytes(frame[position : position + 2]) == _UNSUPPORTED_VERSION:
        # The server does not have the version that was asked for, and says so in the one that everybody has (KIP-511).
        version = 0
    return header.correlation_id, decode_from(asked.response, version, frame, position)[0]


def request_frame(request: Request, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request, ready to send."""
    header = RequestHeader(
        request_api_key=request.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return _frame(encode(header, api(request.api_key).request_header_version(version)), request, version)


def response_frame(response: Response, version: int, correlation_id: int) -> bytes:
    """A response, ready to send. Records must be in memory."""
    return _frame(_response_header(response, version, correlation_id), response, version)


def response_frame_parts(response: Response, version: int, correlation_id: int) -> list[Part]:
    """A response, ready to send part by part: records that lie in files stay there."""
    header = _response_header(response, version, correlation_id)
    parts = encode_parts(response, version)
    first = _SIZE.pack(len(header) + parts_bytes(parts)) + header
    if isinstance(parts[0], bytes):
        return [first + parts[0], *parts[1:]]
    return [first, *parts]


def _response_header(response: Response, version: int, correlation_id: int) -> bytes:
    return encode(ResponseHeader(correlation_id=correlation_id), api(response.api_key).response_header_version(version))


def _frame(header: bytes, message: Message, version: int) -> bytes:
    body = encode(message, version)
    return b"".join((_SIZE.pack(len(header) + len(body)), header, body))
