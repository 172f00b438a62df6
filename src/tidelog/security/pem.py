"""PEM: certificates and a private key as text, in a file or in the configuration itself.

A key is PKCS#8, encrypted or not; what OpenSSL wrote in former times (`EC PRIVATE KEY`, `RSA PRIVATE KEY`) is taken too.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from typing import NamedTuple

from tidelog.security.der import SEQUENCE, DerError, expect, read
from tidelog.security.key_material import ENTRIES_MAX, STORE_BYTES_MAX, KeyMaterial, StoreContent, StoreError

_BEGIN = re.compile(r"-----BEGIN ([A-Z0-9 ]{1,40})-----")
_HEADER = re.compile(r"^[^\r\n:]*:[^\r\n]*$", re.MULTILINE)

_PLAIN_KEY = "PRIVATE KEY"


class _Block(NamedTuple):
    label: str
    text: str


def key_store_from_pem(key_text: str, chain_text: str, password: str | None) -> StoreContent:
    """A key and its chain, which may stand in one text."""
    key = private_key_from_pem(key_text, password)
    return StoreContent((KeyMaterial(key, _certificates(chain_text)),), ())


def private_key_from_pem(text: str, password: str | None) -> bytes:
    """The one key in a text, as PKCS#8 that is not encrypted."""
    keys = [block for block in _blocks(text) if block.label.endswith(_PLAIN_KEY)]
    if len(keys) != 1:
        raise StoreError("it holds no private key" if not keys else f"it holds {len(keys)} private keys instead of one")
    return _private_key(keys[0], password)


def trust_store_from_pem(text: str) -> StoreContent:
    return StoreContent((), _certificates(text))


def certificate_pem(certificate: bytes) -> str:
    return _written("CERTIFICATE", certificate)


def private_key_pem(private_key: bytes) -> str:
    return _written(_PLAIN_KEY, private_key)


def _written(label: str, data: bytes) -> str:
    text = base64.encodebytes(data).decode().replace("\n", "")
    lines = (text[at : at + 64] for at in range(0, len(text), 64))
    return "\n".join((f"-----BEGIN {label}-----", *lines, f"-----END {label}-----", ""))


def _blocks(text: str) -> Iterator[_Block]:
    if len(text) > STORE_BYTES_MAX:
        raise StoreError(f"it is larger than {STORE_BYTES_MAX} bytes")
    at = 0
    while (begin := _BEGIN.search(text, at)) is not None:
        label = begin[1]
        end = text.find(f"-----END {label}-----", begin.end())
        if end < 0:
            raise StoreError(f"{label} has no end")
        yield _Block(label, text[begin.end() : end])
        at = end


def _certificates(text: str) -> tuple[bytes, ...]:
    certificates = [_decoded(block) for block in _blocks(text) if block.label.endswith("CERTIFICATE")]
    if not certificates:
        raise StoreError("it holds no certificate")
    if len(certificates) > ENTRIES_MAX:
        raise StoreError(f"it holds more than {ENTRIES_MAX} certificates")
    return tuple(certificates)


def _decoded(block: _Block) -> bytes:
    try:
        data = base64.b64decode("".join(_HEADER.sub("", block.text).split()), validate=True)
        expect(read(data), SEQUENCE)
    except (binascii.Error, DerError) as error:
        raise StoreError(f"{block.label} is not valid base64 of DER") from error
    return data


def _private_key(block: _Block, password: str | None) -> bytes:
    data = _decoded(block) if "Proc-Type" not in block.text else b""
    if block.label == _PLAIN_KEY:
        if password is not None:
            raise StoreError("a password of the key is set, but the key is not encrypted")
        return data
    # A plain node's start must not wait for it; `ssl` itself cannot decrypt a key without writing it to a file.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415

    text = f"-----BEGIN {block.label}-----{block.text}-----END {block.label}-----\n"
    try:
        key = serialization.load_pem_private_key(text.encode(), None if password is None else password.encode())
    except (ValueError, TypeError, ArithmeticError) as error:
        reason = "it needs a password" if password is None else "is the password of the key right?"
        raise StoreError(f"the private key cannot be read: {reason}") from error
    except Exception as error:  # what the library does not support has a class of its own
        raise StoreError(f"the private key cannot be read: {type(error).__name__}") from error
    return key.private_bytes(
        serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
