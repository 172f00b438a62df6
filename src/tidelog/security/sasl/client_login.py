"""A client's login as requests and answers, whatever the mechanism: ApiVersions, SaslHandshake, then tokens in SaslAuthenticate.

    login = SaslLogin("PLAIN", PlainClient("alice", "secret"), client_id="me")
    frames = login.start()                 # each a whole request without its size; or a Pending of them
    frames = login.received(answer)        # until login.is_done; SaslError says why it never will be

ApiVersions comes first, because no other request is understood by every node: it says how the tokens are to be wrapped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.security.sasl.exchange import ClientExchange, SaslError
from tidelog.wire.apis import ApiKey
from tidelog.wire.errors import WireError
from tidelog.wire.frames import SIZE_BYTES, read_response, request_frame
from tidelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.wire.messages.sasl import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
    SaslHandshakeRequest,
    SaslHandshakeResponse,
)
from tidelog.wire.schema import Request

Frames = list[bytes] | Pending[list[bytes] | SaslError]

_AUTHENTICATE_VERSION_MAX = 2
# Its answer tells that tokens come in SaslAuthenticate, with errors and the lifetime of the session.
_HANDSHAKE_VERSION = 1


class SaslLogin:
    """One login on one connection."""

    def __init__(self, mechanism: str, exchange: ClientExchange, *, client_id: str | None = None) -> None:
        self.name = mechanism
        self.is_done = False
        self.session_lifetime_ms = 0
        self._exchange = exchange
        self._client_id = client_id
        self._next: Callable[[Any], Frames] = self._versions
        self._asked: tuple[int, int] = (0, 0)
        self._authenticate_version = 0
        self._correlation_id = -1

    def start(self) -> Frames:
        return self._request(ApiVersionsRequest(client_software_name="", client_software_version=""), 0)

    def received(self, frame: memoryview) -> Frames:
        try:
            correlation_id, answer = read_response(frame, *self._asked)
        except (WireError, UnicodeDecodeError) as error:
            raise SaslError(f"the answer cannot be read: {error}") from None
        if correlation_id != self._correlation_id:
            raise SaslError("the answer is to another request")
        return self._next(answer)

    def _request(self, request: Request, version: int) -> list[bytes]:
        self._correlation_id += 1
        self._asked = request.api_key, version
        return [request_frame(request, version, self._correlation_id, self._client_id)[SIZE_BYTES:]]

    def _versions(self, answer: ApiVersionsResponse) -> Frames:
        if answer.error_code != ErrorCode.NONE:
            raise SaslError(f"ApiVersions was answered with {_name(answer.error_code)}")
        highest = {each.api_key: each.max_version for each in answer.api_keys}
        if highest.get(ApiKey.SASL_HANDSHAKE, -1) < _HANDSHAKE_VERSION or ApiKey.SASL_AUTHENTICATE not in highest:
            raise SaslError("the node there does not know SaslAuthenticate")
        self._authenticate_version = min(highest[ApiKey.SASL_AUTHENTICATE], _AUTHENTICATE_VERSION_MAX)
        self._next = self._handshake
        return self._request(SaslHandshakeRequest(mechanism=self.name), _HANDSHAKE_VERSION)

    def _handshake(self, answer: SaslHandshakeResponse) -> Frames:
        match answer.error_code:
            case ErrorCode.NONE:
                self._next = self._authenticate
                return self._evaluate(b"")
            case ErrorCode.UNSUPPORTED_SASL_MECHANISM:
                enabled = ", ".join(sorted(answer.mechanisms)) or "none"
                raise SaslError(f"the mechanism is not enabled there: {enabled}")
            case ErrorCode.ILLEGAL_SASL_STATE:
                raise SaslError("the listener there does not expect a login: is it one with SASL?")
        raise SaslError(f"SaslHandshake was answered with {_name(answer.error_code)}")

    def _authenticate(self, answer: SaslAuthenticateResponse) -> Frames:
        if answer.error_code != ErrorCode.NONE:
            raise SaslError(answer.error_message or _name(answer.error_code))
        self.session_lifetime_ms = answer.session_lifetime_ms
        return self._evaluate(bytes(answer.auth_bytes))

    def _evaluate(self, token: bytes) -> Frames:
        said = self._exchange.evaluate(token)
        if not isinstance(said, Pending):
            return self._say(said)
        later: Pending[list[bytes] | SaslError] = Pending()
        said.then(lambda held: later.complete(held if isinstance(held, SaslError) else self._say(held)))
        return later

    def _say(self, token: bytes) -> list[bytes]:
        if self._exchange.is_complete:
            self.is_done = True
            return []
        return self._request(SaslAuthenticateRequest(auth_bytes=token), self._authenticate_version)


def _name(error_code: int) -> str:
    return ErrorCode.of(error_code).name
