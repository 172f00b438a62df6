"""Envelope (58): a client's request, forwarded to the controller with its principal and address (KIP-590)."""

from tidelog.wire.schema import Bytes, Int16, Request, Response


class EnvelopeRequest(Request, api_key=58, versions="0", flexible="0+", listeners="controller"):
    request_data: Bytes
    request_principal: Bytes | None
    client_host_address: Bytes


class EnvelopeResponse(Response, api_key=58, versions="0", flexible="0+"):
    response_data: Bytes | None = None
    error_code: Int16
