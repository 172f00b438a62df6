"""OAUTHBEARER (RFC 7628): a token that somebody else has issued.

    client  n,,^Aauth=Bearer <token>^A^A
    server  nothing, if the token is good; otherwise {"status":"invalid_token"}, to which the client says ^A and is refused

What makes a token good is the validator's business: `unsecured_jws` for tests, `jwt_validator` with the issuer's keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.model.pending import Pending
from tidelog.model.principal import Principal
from tidelog.security.sasl.exchange import Evaluated, SaslAuthenticationError, SaslError, UnexpectedTokenError

MECHANISM = "OAUTHBEARER"

_SEPARATOR = "\x01"
_KEY = r"[A-Za-z]+"
_VALUE = r"[\x21-\x7e \t\r\n]+"
_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_CLIENT_FIRST = re.compile(rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,\x01(?P<pairs>(?:{_KEY}={_VALUE}\x01)*)\x01")
_AUTH = re.compile(r"(?P<scheme>\w+) +(?P<token>[-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_IS_KEY = re.compile(_KEY)
_IS_VALUE = re.compile(_VALUE)


class BearerToken(NamedTuple):
    """What a good token says."""

    principal_name: str
    lifetime_ms: int
    """When it ends, in milliseconds since the epoch. Kafka calls it so."""
    scope: frozenset[str] = frozenset()


class TokenRefused(NamedTuple):
    """A token that is not good: what the client is told of it, and what the log is."""

    status: str = "invalid_token"
    scope: str | None = None
    reason: str = ""

    @property
    def json(self) -> str:
        scope = "" if self.scope is None else f', "scope":"{self.scope}"'
        return f'{{"status":"{self.status}"{scope}}}'


Validated = BearerToken | TokenRefused
Validator = Callable[[str], Validated | Pending[Validated]]


class ClientFirst(NamedTuple):
    """What a client says first."""

    token: str
    authzid: str = ""
    extensions: Mapping[str, str] = {}

    @classmethod
    def parse(cls, said: bytes) -> ClientFirst:
        match = _CLIENT_FIRST.fullmatch(said.decode("utf-8", "replace"))
        if match is None:
            raise SaslError("Invalid OAUTHBEARER client first message")
        pairs = (each.partition("=") for each in match["pairs"].split(_SEPARATOR) if each)
        values = {key: value for key, _, value in pairs}
        auth = values.pop("auth", None)
        if auth is None:
            raise SaslError("Invalid OAUTHBEARER client first message: 'auth' not specified")
        held = _AUTH.fullmatch(auth)
        if held is None:
            raise SaslError("Invalid OAUTHBEARER client first message: invalid 'auth' format")
        if held["scheme"].lower() != "bearer":
            # Kafka means to say which, and fails at that.
            raise UnexpectedTokenError("Invalid scheme in OAUTHBEARER client first message")
        return cls(held["token"], match["authzid"] or "", values)

    def to_bytes(self) -> bytes:
        authzid = f"a={self.authzid}" if self.authzid else ""
        pairs = "".join(f"{key}={value}{_SEPARATOR}" for key, value in self.extensions.items())
        return f"n,{authzid},{_SEPARATOR}auth=Bearer {self.token}{_SEPARATOR}{pairs}{_SEPARATOR}".encode()


def extensions_problem(extensions: Mapping[str, str]) -> str | None:
    """What is wrong with a client's extensions, in Kafka's words."""
    if "auth" in extensions:
        return "Extension name auth is invalid"
    for key, value in extensions.items():
        if not _IS_KEY.fullmatch(key):
            return f"Extension name {key} is invalid"
        if not _IS_VALUE.fullmatch(value):
            return f"Extension value ({value}) for extension {key} is invalid"
    return None


class OAuthBearerServer:
    """The server's side of one attempt. Extensions are taken, and nothing is made of them, as by Kafka's own validators."""

    def __init__(self, validate: Validator) -> None:
        self._validate = validate
        self._token: BearerToken | None = None
        self._refused: str | None = None

    @property
    def is_complete(self) -> bool:
        return self._token is not None

    @property
    def principal(self) -> Principal:
        assert self._token is not None
        return Principal("User", self._token.principal_name)

    @property
    def session_end_ms(self) -> int | None:
        return None if self._token is None else self._token.lifetime_ms

    def evaluate(self, token: bytes) -> Evaluated:
        if self._refused is not None and token == b"\x01":
            raise SaslAuthenticationError(self._refused)
        self._refused = None
        said = ClientFirst.parse(token)
        validated = self._validate(said.token)
        if not isinstance(validated, Pending):
            return self._decide(said, validated)
        answered: Pending[bytes | SaslError] = Pending()

        def decide(outcome: Validated) -> None:
            try:
                answered.complete(self._decide(said, outcome))
            except SaslError as error:
                answered.complete(error)

        validated.then(decide)
        return answered

    def _decide(self, said: ClientFirst, validated: Validated) -> bytes:
        if isinstance(validated, TokenRefused):
            self._refused = validated.json
            return self._refused.encode()
        if said.authzid not in ("", validated.principal_name):
            raise SaslAuthenticationError(
                f"Authentication failed: Client requested an authorization id ({said.authzid}) that is different"
                f" from the token's principal name ({validated.principal_name})"
            )
        self._token = validated
        return b""


class OAuthBearerClient:
    """The client's side of one attempt, with a token that is at hand or comes later."""

    def __init__(
        self, token: Callable[[], str | Pending[str | SaslError]], extensions: Mapping[str, str] | None = None
    ) -> None:
        self._supply = token
        self._extensions = extensions or {}
        self._is_sent = False
        self.is_complete = False

    def evaluate(self, token: bytes) -> Evaluated:
        if self._is_sent:
            if token:
                # Only after this does the server say what is wrong.
                return b"\x01"
            self.is_complete = True
            return b""
        self._is_sent = True
        supplied = self._supply()
        if not isinstance(supplied, Pending):
            return self._first(supplied)
        said: Pending[bytes | SaslError] = Pending()
        supplied.then(lambda held: said.complete(held if isinstance(held, SaslError) else self._first(held)))
        return said

    def _first(self, token: str) -> bytes:
        return ClientFirst(token, extensions=self._extensions).to_bytes()
