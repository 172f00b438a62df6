"""A node with a listener for each security protocol, users of every mechanism, and the files that clients need for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.support.running_node import RunningNode
from tests.support.sasl_node import PASSWORD, PLAIN_MODULE, USER, add_scram_user, sasl_settings
from tests.support.tls_files import key_settings, new_authority
from tidelog.security.certificate_authority import Certificate, CertificateAuthority

SASL_PLAINTEXT, SASL_SSL, SSL = "CLIENTS", "SECURE", "TLS"
NAMES = ("localhost", "127.0.0.1")


class SecureNode:
    """`with SecureNode(directory) as node`. Listeners: PLAINTEXT, CLIENTS (SASL_PLAINTEXT), SECURE (SASL_SSL), TLS (SSL)."""

    def __init__(
        self, directory: Path, names: Sequence[str] = NAMES, settings: Mapping[str, str] | None = None
    ) -> None:
        """Its certificate is for these names."""
        self.directory = directory
        self.authority: CertificateAuthority = new_authority()
        self.truststore = directory / "ca.pem"
        self.truststore.write_bytes(self.authority.certificate_pem)
        certificate = self.authority.node_certificate(list(names))
        self._node = RunningNode(directory / "data", settings=self._settings(certificate) | dict(settings or {}))

    def _settings(self, certificate: Certificate) -> dict[str, str]:
        listeners = ("PLAINTEXT", SASL_PLAINTEXT, SASL_SSL, SSL, "CONTROLLER")
        return sasl_settings() | {
            "listeners": ",".join(f"{each}://127.0.0.1:0" for each in listeners),
            "listener.security.protocol.map": (
                f"PLAINTEXT:PLAINTEXT,{SASL_PLAINTEXT}:SASL_PLAINTEXT,{SASL_SSL}:SASL_SSL,{SSL}:SSL,CONTROLLER:PLAINTEXT"
            ),
            "listener.name.secure.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            "listener.name.secure.plain.sasl.jaas.config": f'{PLAIN_MODULE} required user_{USER}="{PASSWORD}";',
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.truststore),
            **key_settings("PEM", self.directory, "node", certificate),
        }

    def __enter__(self) -> Self:
        self._node.__enter__()
        add_scram_user(self._node)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._node.__exit__(kind, error, trace)

    def bootstrap(self, listener: str = "PLAINTEXT", host: str = "127.0.0.1") -> str:
        return f"{host}:{self._node.node.endpoint(listener).port}"

    def tls(self, **more: Any) -> dict[str, Any]:
        """Options of a client over SSL."""
        return {
            "bootstrap_servers": self.bootstrap(SSL),
            "security_protocol": "SSL",
            "ssl_truststore_location": str(self.truststore),
            **more,
        }

    def sasl(self, mechanism: str = "SCRAM-SHA-512", **more: Any) -> dict[str, Any]:
        """Options of a client over SASL_SSL."""
        user = {} if mechanism == "OAUTHBEARER" else {"sasl_username": USER, "sasl_password": PASSWORD}
        return {
            **self.tls(),
            "bootstrap_servers": self.bootstrap(SASL_SSL),
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": mechanism,
            **user,
            **more,
        }
