"""What a store of keys and certificates holds, whatever its format: private keys with their chains, and certificates that are
trusted. All of it as DER.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.security.der import CertificateFields

# A store of a node holds a handful of certificates; that of a browser's authorities is a quarter of it.
STORE_BYTES_MAX = 4 * 1024 * 1024
ENTRIES_MAX = 10_000


class StoreError(ValueError):
    """A store that cannot be read, as half a sentence. Never with anything of its content."""


class KeyMaterial(NamedTuple):
    """A private key (PKCS#8, in the clear) and its certificates, its own first."""

    private_key: bytes
    chain: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"KeyMaterial(<{len(self.chain)} certificates>)"

    @property
    def certificate(self) -> bytes:
        return self.chain[0]


class StoreContent(NamedTuple):
    """A whole store."""

    keys: tuple[KeyMaterial, ...]
    trusted: tuple[bytes, ...]


def ordered_chain(certificate: bytes, others: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """A certificate, then who signed it, then who signed that: as far as the others go."""
    chain = [certificate]
    left = {other: CertificateFields.of(other) for other in others if other != certificate}
    issuer = CertificateFields.of(certificate).issuer
    while True:
        found = next((other for other, fields in left.items() if fields.subject == issuer), None)
        if found is None:
            return tuple(chain)
        chain.append(found)
        issuer = left.pop(found).issuer
