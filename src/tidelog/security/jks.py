"""Java's own key store format, which `keytool` wrote by default until Java 9 and Kafka still takes for granted.

    0xFEEDFEED, version, number of entries, each: kind, alias, time; an encrypted key with its chain, or a certificate; then the
    SHA-1 of the password, "Mighty Aphrodite" and everything before

A key is XORed with a stream of SHA-1 over the password and a salt (`sun.security.provider.KeyProtector`). Weak, but it is what
the files have: the mode of such a file protects it, not its password.
"""

from __future__ import annotations

import hashlib
import hmac
from struct import Struct

from tidelog.security.der import (
    OBJECT_IDENTIFIER,
    OCTET_STRING,
    SEQUENCE,
    DerError,
    expect,
    first_two,
    identifier,
    read,
)
from tidelog.security.key_material import ENTRIES_MAX, STORE_BYTES_MAX, KeyMaterial, StoreContent, StoreError

MAGIC = b"\xfe\xed\xfe\xed"
_VERSIONS = (1, 2)
_KEY, _TRUSTED = 1, 2
_DIGEST_BYTES = 20
_SALT_BYTES = 20
_WHITENER = b"Mighty Aphrodite"
_KEY_PROTECTOR = "1.3.6.1.4.1.42.2.17.1.1"

_uint16, _uint32 = Struct(">H"), Struct(">I")


def store_from_jks(data: bytes, password: str | None, key_password: str | None) -> StoreContent:
    """The store in a file. Without a password its integrity is not checked, and it must hold no key."""
    if len(data) > STORE_BYTES_MAX:
        raise StoreError(f"it is larger than {STORE_BYTES_MAX} bytes")
    if len(data) < 12 + _DIGEST_BYTES or not data.startswith(MAGIC):
        raise StoreError("it is not a JKS file")
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if password is not None and not hmac.compare_digest(_digest(_secret(password), _WHITENER, body), digest):
        raise StoreError("its password is wrong, or it was tampered with")
    try:
        return _Reader(body, key_password if key_password is not None else password).store()
    except DerError as error:
        raise StoreError("it is damaged") from error


class _Reader:
    def __init__(self, data: bytes, key_password: str | None) -> None:
        self._data = data
        self._at = len(MAGIC)
        self._key_password = key_password

    def store(self) -> StoreContent:
        version = self._number()
        if version not in _VERSIONS:
            raise StoreError(f"it is of version {version} of the format, which is not known")
        keys: list[KeyMaterial] = []
        trusted: list[bytes] = []
        count = self._number()
        if count > ENTRIES_MAX:
            raise StoreError(f"it holds more than {ENTRIES_MAX} entries")
        for _ in range(count):
            kind = self._number()
            self._text()
            self._take(8)
            if kind == _KEY:
                protected = self._take(self._number())
                chain = tuple(self._certificate(version) for _ in range(min(self._number(), ENTRIES_MAX)))
                if not chain:
                    raise StoreError("a private key has no certificate")
                keys.append(KeyMaterial(self._private_key(protected), chain))
            elif kind == _TRUSTED:
                trusted.append(self._certificate(version))
            else:
                raise StoreError(f"an entry is of kind {kind}, which is not known")
        return StoreContent(tuple(keys), tuple(trusted))

    def _private_key(self, protected: bytes) -> bytes:
        if self._key_password is None:
            raise StoreError("it holds a private key, so it needs a password")
        algorithm, encrypted = first_two(expect(read(protected), SEQUENCE))
        number = identifier(expect(read(expect(algorithm, SEQUENCE)), OBJECT_IDENTIFIER))
        if number != _KEY_PROTECTOR:
            raise StoreError(f"a private key is protected by {number}, which is not known")
        return unprotected(expect(encrypted, OCTET_STRING), self._key_password)

    def _certificate(self, version: int) -> bytes:
        if version > 1:
            kind = self._text()
            if kind not in {b"X.509", b"X509"}:
                raise StoreError("a certificate is not one of X.509")
        return self._take(self._number())

    def _text(self) -> bytes:
        return self._take(_uint16.unpack(self._take(2))[0])

    def _number(self) -> int:
        number: int = _uint32.unpack(self._take(4))[0]
        return number

    def _take(self, count: int) -> bytes:
        taken = self._data[self._at : self._at + count]
        if len(taken) != count:
            raise StoreError("it ends too early")
        self._at += count
        return taken


def unprotected(data: bytes, password: str) -> bytes:
    """The key in what `KeyProtector` wrote: a salt, the key XORed with a stream, and a digest of the key."""
    secret = _secret(password)
    salt, cipher, digest = data[:_SALT_BYTES], data[_SALT_BYTES:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if len(data) <= _SALT_BYTES + _DIGEST_BYTES:
        raise StoreError("it is damaged")
    key = keystream_xor(cipher, salt, secret)
    if not hmac.compare_digest(_digest(secret, key), digest):
        raise StoreError("the password of the private key is wrong")
    return key


def keystream_xor(data: bytes, salt: bytes, secret: bytes) -> bytes:
    """Both ways: what was XORed twice is as it was."""
    stream = bytearray()
    block = salt
    while len(stream) < len(data):
        block = _digest(secret, block)
        stream += block
    count = len(data)
    return (int.from_bytes(data, "big") ^ int.from_bytes(stream[:count], "big")).to_bytes(count, "big")


def _secret(password: str) -> bytes:
    return password.encode("utf-16-be")


def _digest(*parts: bytes) -> bytes:
    # The format's own digest; the strength of the store is not that of its password.
    return hashlib.sha1(b"".join(parts), usedforsecurity=False).digest()
