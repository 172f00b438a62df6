"""The four texts of SCRAM (RFC 5802) and the grammar that Kafka holds them to. No channel binding."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.security.sasl.exchange import SaslError

# Characters as of Kafka's `ScramMessages`: ASCII without NUL and comma; without `=` too; printable without comma.
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_VALUE_SAFE = r"[\x01-\x2b\x2d-\x3c\x3e-\x7f]+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_SASL_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]++|=2C|=3D)++"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_RESERVED = rf"(?:m={_VALUE},)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"

_CLIENT_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{_SASL_NAME}))?,{_RESERVED}n=(?P<name>{_SASL_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS})"
)
_SERVER_FIRST = re.compile(
    rf"{_RESERVED}r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]+){_EXTENSIONS}"
)
_CLIENT_FINAL = re.compile(rf"c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS},p=(?P<proof>{_BASE64})")
_SERVER_FINAL = re.compile(rf"(?:e=(?P<error>{_VALUE_SAFE}))|(?:v=(?P<signature>{_BASE64})){_EXTENSIONS}")

# Whoever has not authenticated may send half a megabyte, and nobody's name is as long. Kafka reads it all.
MESSAGE_BYTES_MAX = 16_384

# What a 32-bit number may have.
_ITERATIONS_DIGITS_MAX = 10


class ClientFirst(NamedTuple):
    """`n,,n=alice,r=fyko`: who wants in."""

    sasl_name: str
    nonce: str
    authzid: str = ""
    extensions: str = ""
    """`tokenauth=true`, or several with commas between them."""

    @classmethod
    def parse(cls, token: bytes) -> ClientFirst:
        match = _matched(_CLIENT_FIRST, token, "client first")
        # A reserved m= is not among what is signed, so that the proof of whoever says it never fits.
        return cls(match["name"], match["nonce"], match["authzid"] or "", match["extensions"].removeprefix(","))

    @property
    def bare(self) -> str:
        return f"n={self.sasl_name},r={self.nonce}" + (f",{self.extensions}" if self.extensions else "")

    @property
    def extension_values(self) -> Mapping[str, str]:
        pairs = (each.partition("=") for each in self.extensions.split(",") if each)
        return {name: value for name, _, value in pairs}

    def to_bytes(self) -> bytes:
        return f"n,,{self.bare}".encode()


class ServerFirst(NamedTuple):
    """`r=fyko3rfc,s=QSXC,i=4096`: how the password was salted."""

    nonce: str
    salt: bytes
    iterations: int

    @classmethod
    def parse(cls, token: bytes) -> ServerFirst:
        match = _matched(_SERVER_FIRST, token, "server first")
        digits = match["iterations"]
        if len(digits) > _ITERATIONS_DIGITS_MAX or not 0 < int(digits) < 1 << 31:
            raise SaslError("Invalid SCRAM server first message format: invalid iterations")
        return cls(match["nonce"], b64decode(match["salt"]), int(digits))

    @property
    def text(self) -> str:
        return f"r={self.nonce},s={b64encode(self.salt).decode()},i={self.iterations}"


class ClientFinal(NamedTuple):
    """`c=biws,r=fyko3rfc,p=v0X8`: the proof of the password."""

    channel_binding: bytes
    nonce: str
    proof: bytes = b""

    @classmethod
    def parse(cls, token: bytes) -> ClientFinal:
        match = _matched(_CLIENT_FINAL, token, "client final")
        return cls(b64decode(match["channel"]), match["nonce"], b64decode(match["proof"]))

    @property
    def without_proof(self) -> str:
        return f"c={b64encode(self.channel_binding).decode()},r={self.nonce}"

    def to_bytes(self) -> bytes:
        return f"{self.without_proof},p={b64encode(self.proof).decode()}".encode()


class ServerFinal(NamedTuple):
    """`v=rmF9` or `e=other-error`: the proof that the server knows the password too."""

    signature: bytes
    error: str | None = None

    @classmethod
    def parse(cls, token: bytes) -> ServerFinal:
        match = _matched(_SERVER_FINAL, token, "server final")
        if match["error"] is not None:
            return cls(b"", match["error"])
        return cls(b64decode(match["signature"]))

    def to_bytes(self) -> bytes:
        return f"v={b64encode(self.signature).decode()}".encode()


def _matched(pattern: re.Pattern[str], token: bytes, what: str) -> re.Match[str]:
    match = pattern.fullmatch(token.decode("utf-8", "replace")) if len(token) <= MESSAGE_BYTES_MAX else None
    if match is None:
        # Kafka repeats the message here; in our log it might hold somebody's secret.
        raise SaslError(f"Invalid SCRAM {what} message format")
    return match


def sasl_name(username: str) -> str:
    """A user name as it stands in a message."""
    return username.replace("=", "=3D").replace(",", "=2C")


def username_of(name: str) -> str:
    """The user name that a message spells. SaslError for an `=` that escapes nothing."""
    username = name.replace("=2C", ",")
    if "=" in username.replace("=3D", ""):
        raise SaslError("Authentication failed: Credentials could not be obtained")
    return username.replace("=3D", "=")
