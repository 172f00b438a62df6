"""A node with users behind TLS: the listeners of `secured_node`, and one for SASL over TLS with a certificate of its own."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from tests.support.apache_kafka import SMALL_NODE, ApacheKafka, Node, free_ports
from tests.support.security_tables import secured_node
from tests.support.security_tables.secured_node import MODULES, PASSWORDS, SCRAM_PASSWORDS
from tests.support.tls_files import key_settings, new_authority

TLS = "SECURE"


class TlsNode(NamedTuple):
    """A place for a node of either program, with what its clients need to know."""

    place: Node
    plain: str
    sasl: str
    secure: str
    authority: Path

    def client(self, user: str, mechanism: str = "SCRAM-SHA-256", *, with_tls: bool = True) -> dict[str, str]:
        """The properties of a Java client."""
        password = PASSWORDS[user] if mechanism == "PLAIN" else SCRAM_PASSWORDS[user]
        module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
        login = f'{MODULES}.{module} required username="{user}" password="{password}";'
        return self.client_with(login, mechanism, with_tls=with_tls)

    def client_with(self, login: str, mechanism: str, *, with_tls: bool = True) -> dict[str, str]:
        trust = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority)} if with_tls else {}
        protocol = "SASL_SSL" if with_tls else "SASL_PLAINTEXT"
        return {"security.protocol": protocol, "sasl.mechanism": mechanism, "sasl.jaas.config": login, **trust}

    def properties_file(self, name: str, properties: dict[str, str]) -> Path:
        path = self.place.root / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        return path

    def address(self, *, with_tls: bool = True) -> str:
        return self.secure if with_tls else self.sasl


def tls_node(kafka: ApacheKafka, root: Path) -> TlsNode:
    """Nothing runs yet. Clients on PLAINTEXT are super users, as `admin` is."""
    root.mkdir(parents=True, exist_ok=True)
    authority = new_authority()
    certificate = authority.node_certificate(["localhost", "127.0.0.1"])
    plain, controller, sasl, reauth, secure = free_ports(5)
    settings = secured_node.settings(plain, controller, sasl, reauth)
    listeners = f"{settings['listeners']},{TLS}://127.0.0.1:{secure}"
    settings |= {
        **SMALL_NODE,
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": f"{settings['listener.security.protocol.map']},{TLS}:SASL_SSL",
        **{
            key.replace(".sasl.", f".{TLS.lower()}.", 1): value
            for key, value in settings.items()
            if key.startswith("listener.name.sasl.")
        },
        **{
            f"listener.name.{TLS.lower()}.{key}": value
            for key, value in key_settings("PEM", root, "node", certificate).items()
        },
    }
    path = root / "authority.pem"
    path.write_bytes(authority.certificate_pem)
    place = Node(kafka, root, settings, ports=(plain, controller))
    host = "127.0.0.1"
    return TlsNode(place, f"{host}:{plain}", f"{host}:{sasl}", f"{host}:{secure}", path)
