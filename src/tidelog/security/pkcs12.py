"""PKCS#12: what `keytool` writes since Java 9, and `openssl pkcs12` always.

Java tells certificates that are trusted from those of a chain by an attribute of its own, which `cryptography` does not show.
`keytool` gives a name to the former and none to the latter, so: in a store with a key those with a name are trusted, in a store
without one all are.
"""

from __future__ import annotations

from tidelog.security.der import DerError
from tidelog.security.key_material import STORE_BYTES_MAX, KeyMaterial, StoreContent, StoreError, ordered_chain


def store_from_pkcs12(data: bytes, password: str | None) -> StoreContent:
    """The store in a file. Java cannot have a key of another password than the store's in it, and neither can this."""
    # A plain node's start must not wait for it.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    if len(data) > STORE_BYTES_MAX:
        raise StoreError(f"it is larger than {STORE_BYTES_MAX} bytes")
    try:
        store = pkcs12.load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        reason = "it needs a password" if password is None else "its password is wrong"
        raise StoreError(f"{reason}, or it is not a PKCS12 file") from error
    except Exception as error:  # what the library does not support has a class of its own
        raise StoreError(f"it cannot be read: {type(error).__name__}") from error
    encoding = serialization.Encoding.DER
    others = [(each.certificate.public_bytes(encoding), each.friendly_name) for each in store.additional_certs]
    if store.key is None:
        named = [] if store.cert is None else [store.cert.certificate.public_bytes(encoding)]
        return StoreContent((), (*named, *(certificate for certificate, _ in others)))
    if store.cert is None:
        raise StoreError("a private key has no certificate")
    private_key = store.key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    certificate = store.cert.certificate.public_bytes(encoding)
    try:
        chain = ordered_chain(certificate, tuple(other for other, _ in others))
    except DerError as error:
        raise StoreError("a certificate in it is damaged") from error
    trusted = tuple(other for other, name in others if name is not None)
    return StoreContent((KeyMaterial(private_key, chain),), trusted)
