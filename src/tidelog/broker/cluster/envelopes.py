"""A client's request on its way to the active controller, with the principal on whose behalf it is asked (KIP-590).

The request inside is a whole one, with its header; so is the response. The principal is what Kafka's default principal builder
writes: two bytes of version, then DefaultPrincipalData.
"""

from __future__ import annotations

import ipaddress

from msgspec import Struct

from tidelog.controller.controller import ControllerContext
from tidelog.model.errors import ErrorCode
from tidelog.model.principal import Principal
from tidelog.net.address import java_host
from tidelog.wire.apis import api
from tidelog.wire.codec import decode, encode
from tidelog.wire.errors import MalformedError, UnsupportedVersionError
from tidelog.wire.frames import read_request, read_request_header, read_response
from tidelog.wire.messages.envelope import EnvelopeRequest
from tidelog.wire.messages.headers import RequestHeader, ResponseHeader
from tidelog.wire.messages.internal.principal import DefaultPrincipalData
from tidelog.wire.schema import Request, Response

_PRINCIPAL_VERSION = 0
_VERSION_BYTES = 2

# The only requests that travel so: what clients ask of the controller, and producer ids. All others reach a controller directly.
FORWARDABLE = frozenset({19, 20, 30, 31, 33, 37, 38, 39, 40, 43, 44, 45, 46, 49, 51, 55, 57, 64, 67, 80, 81})


class EnvelopeError(Exception):
    """An envelope that cannot be opened, with what its sender is told."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.message)
        self.error = error


class Opened(Struct, frozen=True):
    """What was in an envelope."""

    header: RequestHeader
    request: Request
    context: ControllerContext


def wrap(request: Request, context: ControllerContext) -> EnvelopeRequest:
    """An envelope around a request, which goes in the client's version: another one may lack fields that the client has set."""
    return EnvelopeRequest(
        request_data=request_bytes(request, version_inside(request, context), 0, context.client_id),
        request_principal=_principal_bytes(context.principal),
        client_host_address=_address_bytes(context.host),
    )


def unwrap(envelope: EnvelopeRequest) -> Opened:
    """What is in an envelope. EnvelopeError where it is not what it should be: that is told in the order in which Kafka looks."""
    principal = _principal(envelope.request_principal)
    host = _address(envelope.client_host_address)
    data = envelope.request_data
    try:
        header, position = read_request_header(data)
        if header.request_api_key not in FORWARDABLE:
            raise EnvelopeError(ErrorCode.INVALID_REQUEST)
        request = read_request(data, header, position)
    except (MalformedError, UnsupportedVersionError) as error:
        # So that it is told apart from what is wrong with the envelope itself.
        raise EnvelopeError(ErrorCode.UNSUPPORTED_VERSION) from error
    return Opened(header, request, ControllerContext(principal, header.client_id, host, header.request_api_version))


def answer_bytes(answer: Response, header: RequestHeader) -> bytes:
    """The response to the request of an envelope, as it goes back."""
    version = header.request_api_version
    answer_header = ResponseHeader(correlation_id=header.correlation_id)
    return encode(answer_header, api(answer.api_key).response_header_version(version)) + encode(answer, version)


def read_answer(data: bytes, request: Request, context: ControllerContext) -> Response:
    """The response that came back for a wrapped request. MalformedError where it is none."""
    return read_response(data, request.api_key, version_inside(request, context))[1]


def version_inside(request: Request, context: ControllerContext) -> int:
    """The version that a wrapped request has."""
    return version_of(request) if context.api_version is None else context.api_version


def version_of(request: Request) -> int:
    """The version in which a node of this release sends a request to another."""
    return api(request.api_key).stable_versions.highest


def request_bytes(request: Request, version: int, correlation_id: int, client_id: str | None) -> bytes:
    """A request with its header, without its size."""
    header = RequestHeader(
        request_api_key=request.api_key,
        request_api_version=version,
        correlation_id=correlation_id,
        client_id=client_id,
    )
    return encode(header, api(request.api_key).request_header_version(version)) + encode(request, version)


def _principal_bytes(principal: Principal) -> bytes:
    data = DefaultPrincipalData(
        type=principal.principal_type, name=principal.name, token_authenticated=principal.token_authenticated
    )
    return _PRINCIPAL_VERSION.to_bytes(_VERSION_BYTES, "big") + encode(data, _PRINCIPAL_VERSION)


def _principal(data: bytes | None) -> Principal:
    error = EnvelopeError(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    if data is None or len(data) < _VERSION_BYTES or int.from_bytes(data[:_VERSION_BYTES], "big") != _PRINCIPAL_VERSION:
        raise error
    try:
        told = decode(DefaultPrincipalData, _PRINCIPAL_VERSION, data[_VERSION_BYTES:])
    except MalformedError:
        raise error from None
    return Principal(told.type, told.name, told.token_authenticated)


def _address_bytes(host: str) -> bytes:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).packed
    except ValueError:
        # A listener without addresses, as a simulated one: Kafka takes nothing but an address.
        return ipaddress.ip_address("0.0.0.0").packed  # noqa: S104 - nothing is bound to it


def _address(data: bytes) -> str:
    try:
        return java_host(str(ipaddress.ip_address(data)))
    except ValueError as error:
        raise EnvelopeError(ErrorCode.INVALID_REQUEST) from error
