"""Who may look at a node's metrics, as `tidelog broker` is told: --metrics-cert, --metrics-key and --metrics-token-file."""

from __future__ import annotations

import ssl
from pathlib import Path

from tidelog.cli.node.broker_options import BrokerOptions
from tidelog.model.config import ConfigError
from tidelog.net.http_endpoint import HttpAccess

# A longer one would not fit into the head of a request.
TOKEN_BYTES_MAX = 4096


def metrics_access(options: BrokerOptions) -> HttpAccess:
    """Who may look. ConfigError, without what a file holds, for what cannot be used."""
    asked = {
        "--metrics-cert": options.metrics_cert,
        "--metrics-key": options.metrics_key,
        "--metrics-token-file": options.metrics_token_file,
    }
    given = [name for name, path in asked.items() if path is not None]
    if given and options.metrics_port is None:
        raise ConfigError(f"{given[0]} is for --metrics-port, which is not given")
    if options.metrics_key is not None and options.metrics_cert is None:
        raise ConfigError("--metrics-key needs --metrics-cert")
    return HttpAccess(
        token=None if options.metrics_token_file is None else _token(options.metrics_token_file),
        tls=None if options.metrics_cert is None else _tls(options.metrics_cert, options.metrics_key),
    )


def _token(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            token = file.read(TOKEN_BYTES_MAX + 1).strip()
    except OSError as error:
        raise ConfigError(f"--metrics-token-file {path} cannot be read: {error.strerror}") from None
    if not token or len(token) > TOKEN_BYTES_MAX or any(not 0x21 <= byte <= 0x7E for byte in token):
        raise ConfigError(
            f"--metrics-token-file {path} holds no token: 1 to {TOKEN_BYTES_MAX} letters, digits or signs are expected"
        )
    return token


def _tls(certificate: str, key: str | None) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        # A key with a password would be asked for at the terminal, where nobody may be.
        context.load_cert_chain(certificate, key, password=lambda: "")
    except ssl.SSLError as error:
        names = certificate if key is None else f"{certificate} and {key}"
        reason = (error.reason or "it is no PEM").replace("_", " ").lower()
        raise ConfigError(
            f"{names} cannot be used for --metrics-port: a certificate and its key without a password are expected, in PEM "
            f"({reason})"
        ) from None
    except OSError as error:
        raise ConfigError(f"{error.filename or certificate} cannot be read: {error.strerror}") from None
    return context
