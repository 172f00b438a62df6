"""The assertion by which a client says who it is to a token endpoint: a JWT from a file, or one that is signed here.

    assertion = ClientAssertion.of(AssertionSettings(private_key_file=..., claim_iss="orders"), now_ms)
    text = assertion()                      # reads the files again, so that they may be replaced; blocks for the disk

As Kafka's AssertionSupplierFactory: a file with an assertion goes before all else. What is signed has the claims of the settings,
over them those of the template file, and over these `alg`, `typ`, `iat`, `exp`, `nbf` and perhaps `jti`. The texts of
AssertionConfigError are Kafka's, with the option's name in front.
"""

from __future__ import annotations

import base64
import json
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog.model.token_names import ES256, RS256
from tidelog.security.access_token import TOKEN_CHARS_MAX
from tidelog.security.key_material import STORE_BYTES_MAX, StoreError
from tidelog.security.pem import private_key_from_pem
from tidelog.security.token_endpoint import TokenEndpointError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_KEY_KINDS = {RS256: "an RSA key", ES256: "a key of the curve P-256"}
# Of ES256 each of the two numbers of a signature.
_COORDINATE_BYTES = 32

PREFIX = "sasl.oauthbearer.assertion."


class AssertionConfigError(Exception):
    """A setting that there cannot be an assertion with, in one sentence."""


@dataclass(frozen=True, slots=True)
class AssertionSettings:
    """What `sasl.oauthbearer.assertion.*` says."""

    file: str | None = None
    private_key_file: str | None = None
    private_key_passphrase: str | None = field(default=None, repr=False)
    template_file: str | None = None
    algorithm: str = RS256
    claim_aud: str | None = None
    claim_exp_seconds: int = 300
    claim_iss: str | None = None
    claim_jti_include: bool = False
    claim_nbf_seconds: int = 60
    claim_sub: str | None = None

    @property
    def proves_client(self) -> bool:
        """Whether a client says who it is by an assertion, rather than by a secret."""
        return bool((self.file or "").strip()) or self.claim_iss is not None

    @property
    def files(self) -> dict[str, str]:
        """The files that are read, by the names of their options."""
        given = {"file": self.file}
        if not (self.file or "").strip():
            given = {"private.key.file": self.private_key_file, "template.file": self.template_file}
        return {f"{PREFIX}{name}": path.strip() for name, path in given.items() if path is not None and path.strip()}


@dataclass(frozen=True, slots=True)
class ClientAssertion:
    """Called, it gives the text of an assertion that is good now. TokenEndpointError where there is none."""

    settings: AssertionSettings
    now_ms: Callable[[], int]

    @classmethod
    def of(cls, settings: AssertionSettings, now_ms: Callable[[], int]) -> ClientAssertion:
        """AssertionConfigError for the first setting that is wrong. Looks at the files, and reads none."""
        files = settings.files
        if not (settings.file or "").strip() and f"{PREFIX}private.key.file" not in files:
            raise AssertionConfigError(f"The OAuth configuration option {PREFIX}private.key.file value is required")
        passphrase = settings.private_key_passphrase
        if passphrase is not None and not passphrase.strip():
            raise AssertionConfigError(
                f"The OAuth configuration option {PREFIX}private.key.passphrase value is required"
            )
        for name, path in files.items():
            _check_file(name, path)
        return cls(settings, now_ms)

    def __call__(self) -> str:
        settings = self.settings
        if (settings.file or "").strip():
            return _checked_jwt(_read(str(settings.file)), str(settings.file))
        header, claims = self._template()
        now_s = self.now_ms() // 1000
        header |= {"alg": settings.algorithm, "typ": "JWT"}
        claims |= {"iat": now_s, "exp": now_s + settings.claim_exp_seconds, "nbf": now_s - settings.claim_nbf_seconds}
        if settings.claim_jti_include:
            claims["jti"] = str(uuid.uuid4())
        content = f"{_section(header)}.{_section(claims)}"
        return f"{content}.{_encoded(self._signature(content.encode()))}"

    def _template(self) -> tuple[dict[str, Any], dict[str, Any]]:
        settings = self.settings
        own = {"aud": settings.claim_aud, "iss": settings.claim_iss, "sub": settings.claim_sub}
        claims: dict[str, Any] = {name: text.strip() for name, text in own.items() if text is not None}
        header: dict[str, Any] = {}
        path = settings.template_file
        if path is not None:
            try:
                said = json.loads(_read(path))
                header |= said.get("header", {})
                claims |= said.get("payload", {})
            except (ValueError, TypeError, AttributeError, RecursionError):
                raise TokenEndpointError(
                    f"An error occurred parsing the OAuth assertion template file from {path}: it is a JSON object with "
                    "header and payload, which are objects themselves",
                    is_final=False,
                ) from None
        return header, claims

    def _signature(self, content: bytes) -> bytes:
        # Only for those who sign.
        from cryptography.hazmat.primitives import hashes, serialization  # noqa: PLC0415
        from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils  # noqa: PLC0415

        settings = self.settings
        path, passphrase = str(settings.private_key_file).strip(), settings.private_key_passphrase
        text = _read(path)
        try:
            material = private_key_from_pem(text, None if passphrase is None else passphrase.strip())
            key: PrivateKeyTypes = serialization.load_der_private_key(material, None)
        except (StoreError, ValueError, TypeError) as error:
            raise _key_error(path, str(error)) from None
        algorithm = settings.algorithm.upper()
        if algorithm == RS256 and isinstance(key, rsa.RSAPrivateKey):
            return key.sign(content, padding.PKCS1v15(), hashes.SHA256())
        if algorithm == ES256 and isinstance(key, ec.EllipticCurvePrivateKey) and isinstance(key.curve, ec.SECP256R1):
            first, second = utils.decode_dss_signature(key.sign(content, ec.ECDSA(hashes.SHA256())))
            return first.to_bytes(_COORDINATE_BYTES, "big") + second.to_bytes(_COORDINATE_BYTES, "big")
        raise _key_error(path, f"{settings.algorithm} takes {_KEY_KINDS.get(algorithm, 'another key')}")


def _check_file(name: str, path: str) -> None:
    if not Path(path).exists():
        raise AssertionConfigError(f"The OAuth configuration option {name} contains a file ({path}) that doesn't exist")
    if not os.access(path, os.R_OK):
        raise AssertionConfigError(
            f"The OAuth configuration option {name} contains a file ({path}) that doesn't have read permission"
        )
    if Path(path).is_dir():
        raise AssertionConfigError(f"The OAuth configuration option {name} references a directory ({path}), not a file")


def _read(path: str) -> str:
    try:
        with Path(path.strip()).open("rb") as file:
            content = file.read(STORE_BYTES_MAX + 1)
        if len(content) > STORE_BYTES_MAX:
            raise TokenEndpointError(
                f"the assertion's file {path} has more than {STORE_BYTES_MAX} bytes", is_final=False
            )
        return content.decode()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise TokenEndpointError(f"the assertion's file {path} cannot be read: {why}", is_final=False) from None


def _checked_jwt(text: str, path: str) -> str:
    """An assertion that somebody else has made: of three sections, of which two are JSON."""
    text = text.strip()
    sections = text.split(".")
    problem = "expected three sections (header, payload, and signature)"
    if len(sections) == 3 and all(sections) and len(text) <= TOKEN_CHARS_MAX:
        try:
            if all(isinstance(json.loads(_decoded(each)), dict) for each in sections[:2]):
                return text
            problem = "header and payload are JSON objects"
        except (ValueError, RecursionError):
            problem = "header and payload are JSON in base64"
    raise TokenEndpointError(f"Malformed JWT provided; {problem}: {path}", is_final=False)


def _key_error(path: str, why: str) -> TokenEndpointError:
    return TokenEndpointError(
        f"An error occurred generating the OAuth assertion private key from {path}: {why}", is_final=False
    )


def _section(values: dict[str, Any]) -> str:
    return _encoded(json.dumps(values, separators=(",", ":"), ensure_ascii=False).encode())


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _decoded(section: str) -> bytes:
    return base64.urlsafe_b64decode(section + "=" * (-len(section) % 4))
