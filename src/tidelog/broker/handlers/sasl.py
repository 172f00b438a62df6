"""SaslHandshake (17), v0-1; SaslAuthenticate (36), v0-2: only from whoever need not, or may not now, say who it is.

What a client of a SASL listener says first, and when it authenticates again, is heard by `security.sasl_authenticator`.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.errors import ErrorCode
from tidelog.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)


@handles(SaslHandshakeRequest)
def sasl_handshake(_request: SaslHandshakeRequest, _caller: Caller, _node: Node) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, mechanisms=[])


@handles(SaslAuthenticateRequest)
def sasl_authenticate(_request: SaslAuthenticateRequest, _caller: Caller, _node: Node) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )
