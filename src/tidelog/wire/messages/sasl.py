"""SaslHandshake (17), SaslAuthenticate (36): choose a mechanism, then exchange its tokens.

SaslHandshake: v0 is followed by bare tokens, v1 by SaslAuthenticate; it can never become flexible (KAFKA-9577)
SaslAuthenticate: v1 session lifetime (KIP-368)
"""

from tidelog.wire.schema import Array, Bytes, Int16, Int64, Request, Response, String, since


class SaslHandshakeRequest(Request, api_key=17, versions="0-1", listeners="broker controller"):
    mechanism: String


class SaslHandshakeResponse(Response, api_key=17, versions="0-1"):
    error_code: Int16
    mechanisms: Array[String]


class SaslAuthenticateRequest(Request, api_key=36, versions="0-2", flexible="2+", listeners="broker controller"):
    auth_bytes: Bytes


class SaslAuthenticateResponse(Response, api_key=36, versions="0-2", flexible="2+"):
    error_code: Int16
    error_message: String | None
    auth_bytes: Bytes
    session_lifetime_ms: Int64 = since(1, default=0, ignorable=True)
