"""PLAIN (RFC 4616): a user name and a password as they are. Only over TLS, or where nobody listens."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Mapping

from tidelog.model.principal import Principal
from tidelog.security.jaas import PLAIN_LOGIN_MODULE, JaasEntry
from tidelog.security.sasl.exchange import SaslAuthenticationError

MECHANISM = "PLAIN"

_USER = "user_"
_TOKENS = 3

Check = Callable[[str, str], bool]
"""Whether a user has a password."""


def password_check(login: JaasEntry) -> Check:
    """The users of a login: its options `user_<name>`. None where the module is not PLAIN's, as in Kafka."""
    users: Mapping[str, str] = {}
    if login.login_module == PLAIN_LOGIN_MODULE:
        users = {key[len(_USER) :]: value for key, value in login.options.items() if key.startswith(_USER)}
    digests = {name: _digest(password) for name, password in users.items()}
    # What the password of a user that does not exist is compared with, so that it takes as long.
    nobody = bytes(hashlib.sha256().digest_size)

    def check(username: str, password: str) -> bool:
        expected = digests.get(username)
        is_equal = hmac.compare_digest(_digest(password), nobody if expected is None else expected)
        return is_equal and expected is not None

    return check


def _digest(password: str) -> bytes:
    """All passwords are equally long to compare. Lone surrogates, which JAAS text may spell, are kept apart too."""
    return hashlib.sha256(password.encode("utf-8", "surrogatepass")).digest()


class PlainServer:
    """Takes one token: `[authzid] NUL user NUL password`."""

    session_end_ms: int | None = None

    def __init__(self, check: Check) -> None:
        self._check = check
        self._username: str | None = None

    @property
    def is_complete(self) -> bool:
        return self._username is not None

    @property
    def principal(self) -> Principal:
        assert self._username is not None
        return Principal("User", self._username)

    def evaluate(self, token: bytes) -> bytes:
        parts = token.decode("utf-8", "replace").split("\0", _TOKENS)
        if len(parts) != _TOKENS:
            raise SaslAuthenticationError(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(parts)}")
        authzid, username, password = parts
        if not username:
            raise SaslAuthenticationError("Authentication failed: username not specified")
        if not password:
            raise SaslAuthenticationError("Authentication failed: password not specified")
        if not self._check(username, password):
            raise SaslAuthenticationError("Authentication failed: Invalid username or password")
        if authzid not in ("", username):
            raise SaslAuthenticationError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self._username = username
        return b""


class PlainClient:
    """Says one token, and expects an empty one."""

    def __init__(self, username: str, password: str) -> None:
        self._token = b"\0".join((b"", username.encode(), password.encode()))
        self._is_sent = False
        self.is_complete = False

    def evaluate(self, token: bytes) -> bytes:  # noqa: ARG002 - the server has nothing to say
        if self._is_sent:
            self.is_complete = True
            return b""
        self._is_sent = True
        return self._token
