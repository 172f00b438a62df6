"""What secures nodes that share a machine: a CA, certificates, users and their rights, made once and kept with the cluster.

    DIRECTORY/security/
        ca.pem                       what clients trust
        node-1.pem ...               key and certificate of each node
        alice.pem, admin.pem         of the users, where they prove who they are by certificate
        client.properties            ready for Java's clients and for `tidelog --command-config`: as alice
        admin.properties             the same as admin
        client-librdkafka.properties ready for librdkafka: as alice
        security.json                how the cluster is secured, and the passwords

    words       security.protocol    who is let in                                          the authoriser
    tls         SSL                  anybody; a certificate is a name                       none: everybody may do everything
    mtls        SSL                  who has a certificate of the CA                        on
    plain, scram, oauthbearer
                SASL_PLAINTEXT       the users, by password or by an unsigned token         on
    tls+scram   SASL_SSL             the same, over TLS                                     on

Two users are made. `admin` may do everything. `alice` may use all topics, groups and transactional ids, and nothing else: what
she may not do is refused as it would be elsewhere. The nodes themselves are super users. Controllers always speak TLS with each
other, and prove who they are by certificate: SCRAM cannot serve there, since its credentials are in the log that they are about
to read. Apache Kafka starts with the same files.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any, TypedDict

from msgspec import Struct

from tidelog.broker.node.local_cluster import CONTROLLER_LISTENER, HOST, LocalNode
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.clock import Clock
from tidelog.model.config import ConfigError
from tidelog.model.ids import random_uuid
from tidelog.security.sasl.scram_credential import ITERATIONS_MIN, ScramMechanism, derive_credential, new_salt
from tidelog.storage.files import Files
from tidelog.storage.properties import format_properties
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.internal.cluster_security import AccessControlEntryRecord, UserScramCredentialRecord

if TYPE_CHECKING:
    from tidelog.security.certificate_authority import Certificate

ADMIN = "admin"
USER = "alice"
NODE_USER = "node"

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

_FOLDER = "security"
_STATE_FILE = "security.json"
_ADMIN_FILE = "admin.properties"
_STATE_BYTES_MAX = 1 << 16
_PASSWORD_BYTES = 18
_HOSTS = ("localhost", HOST)

_MECHANISM_OF = {"plain": "PLAIN", "scram": "SCRAM-SHA-256", "scram-sha-256": "SCRAM-SHA-256"}
_MECHANISM_OF |= {"scram-sha-512": "SCRAM-SHA-512", "oauthbearer": "OAUTHBEARER"}

_MODULES = "org.apache.kafka.common.security."
_LOGIN_MODULES = {
    "PLAIN": f"{_MODULES}plain.PlainLoginModule",
    "SCRAM-SHA-256": f"{_MODULES}scram.ScramLoginModule",
    "SCRAM-SHA-512": f"{_MODULES}scram.ScramLoginModule",
    "OAUTHBEARER": f"{_MODULES}oauthbearer.OAuthBearerLoginModule",
}

# What alice may do, to everything of a type.
_RIGHTS = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.WRITE, AclOperation.CREATE, AclOperation.DELETE),
    ResourceType.GROUP: (AclOperation.READ, AclOperation.DELETE),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.TWO_PHASE_COMMIT),
}
_ANYTHING = "*"
_LITERAL = 3
_ALLOW = 3


class SecurityMode(Struct, frozen=True):
    """How a local cluster is secured."""

    tls: bool = False
    mutual: bool = False
    """Whether clients must have a certificate too."""
    mechanism: str | None = None
    """The SASL mechanism."""

    @classmethod
    def parse(cls, text: str) -> SecurityMode:
        """`tls`, `mtls`, a mechanism, or `tls+` a mechanism. ConfigError for anything else."""
        words = text.lower().split("+")
        mechanisms = [_MECHANISM_OF[word] for word in words if word in _MECHANISM_OF]
        rest = sorted(word for word in words if word not in _MECHANISM_OF)
        if len(mechanisms) > 1 or rest not in ([], ["tls"], ["mtls"]) or (rest == ["mtls"] and mechanisms):
            raise ConfigError(
                f"{text!r} is not a way to secure a cluster: it can be tls, mtls, plain, scram or oauthbearer, "
                "or tls and one of the last three, as in tls+scram"
            )
        return cls(bool(rest), rest == ["mtls"], mechanisms[0] if mechanisms else None)

    def __str__(self) -> str:
        tls = "mtls" if self.mutual else "tls" if self.tls else ""
        return "+".join(filter(None, (tls, (self.mechanism or "").lower())))

    @property
    def protocol(self) -> str:
        """`security.protocol`, which also is the name of the listener."""
        if self.mechanism is None:
            return "SSL"
        return "SASL_SSL" if self.tls else "SASL_PLAINTEXT"

    @property
    def knows_users(self) -> bool:
        """Whether every caller is somebody, so that rights mean something."""
        return self.mutual or self.mechanism is not None


def security_of(files: Files, directory: str) -> SecurityMode | None:
    """How the cluster in a directory is secured; None where it is not, or not yet."""
    path = f"{directory}/{_FOLDER}/{_STATE_FILE}"
    return SecurityMode.parse(_state(files, path)["mode"]) if files.exists(path) else None


def admin_properties_of(files: Files, directory: str) -> str | None:
    """The file with which the administrator of the cluster in a directory logs in; None where it is not secured."""
    return None if security_of(files, directory) is None else f"{directory}/{_FOLDER}/{_ADMIN_FILE}"


def _state(files: Files, path: str) -> dict[str, Any]:
    try:
        state: dict[str, Any] = json.loads(files.read_bytes(path, _STATE_BYTES_MAX))
    except ValueError:
        raise ConfigError(f"{path} cannot be read: restore it, or choose another directory") from None
    return state


class ClientOptions(TypedDict, total=False):
    """What Tidelog's own clients are given as keyword arguments."""

    security_protocol: str
    ssl_truststore_type: str
    ssl_truststore_location: str
    ssl_keystore_type: str
    ssl_keystore_location: str
    sasl_mechanism: str
    sasl_jaas_config: str


class LocalSecurity:
    """The security of one local cluster. `open` finds what an earlier start has made, or makes it."""

    def __init__(self, directory: str, mode: SecurityMode, passwords: Mapping[str, str], *, is_new: bool) -> None:
        self.directory = directory
        self.mode = mode
        self.is_new = is_new
        self._passwords = passwords

    @classmethod
    def open(
        cls,
        files: Files,
        directory: str,
        mode: SecurityMode,
        nodes: Sequence[LocalNode],
        *,
        clock: Clock,
        random: Random,
    ) -> LocalSecurity:
        """What secures the cluster in `directory`. ConfigError where that was made in another way."""
        folder = f"{directory}/{_FOLDER}"
        path = f"{folder}/{_STATE_FILE}"
        if files.exists(path):
            state = _state(files, path)
            if state["mode"] != str(mode):
                raise ConfigError(
                    f"{directory} holds a cluster that is secured with {state['mode']}, not with {mode}: say the same, "
                    "or choose another directory"
                )
            return cls(folder, mode, state["passwords"], is_new=False)
        passwords = {name: _password(random) for name in (ADMIN, USER, NODE_USER)}
        security = cls(folder, mode, passwords, is_new=True)
        security._make(files, nodes, clock)
        # Last: what was broken off before is made anew.
        files.write_bytes_atomically(path, json.dumps({"mode": str(mode), "passwords": passwords}).encode())
        return security

    # --- the nodes' side ---------------------------------------------------------------------------------------------------

    def node_properties(self, node: LocalNode, nodes: Sequence[LocalNode]) -> dict[str, str]:
        """What goes before `local_properties` in a node's configuration."""
        mode, listener = self.mode, self.mode.protocol
        supers = [f"User:CN=node-{each.node_id}" for each in nodes]
        supers += (
            [f"User:CN={ADMIN}"] if mode.mutual else [f"User:{ADMIN}", f"User:{NODE_USER}"] if mode.mechanism else []
        )
        properties = {
            "listeners": f"{listener}://{HOST}:{node.port},{CONTROLLER_LISTENER}://{HOST}:{node.controller_port}",
            "listener.security.protocol.map": f"{listener}:{listener},{CONTROLLER_LISTENER}:SSL",
            "inter.broker.listener.name": listener,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": f"{self.directory}/node-{node.node_id}.pem",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": f"{self.directory}/ca.pem",
            f"listener.name.{CONTROLLER_LISTENER.lower()}.ssl.client.auth": "required",
            "super.users": ";".join(supers),
        }
        if mode.mechanism is None:
            properties[f"listener.name.{listener.lower()}.ssl.client.auth"] = "required" if mode.mutual else "requested"
        else:
            properties |= {
                "sasl.enabled.mechanisms": mode.mechanism,
                "sasl.mechanism.inter.broker.protocol": mode.mechanism,
                f"listener.name.{listener.lower()}.{mode.mechanism.lower()}.sasl.jaas.config": self._jaas(
                    NODE_USER, lets_in=True
                ),
            }
        if mode.knows_users:
            properties["authorizer.class.name"] = AUTHORIZER
        return properties

    def first_records(self, random: Random) -> tuple[FramedRecord, ...]:
        """The users and rights with which the cluster's log begins."""
        records: list[FramedRecord] = []
        scram = None if self.mode.mechanism is None else ScramMechanism.named(self.mode.mechanism)
        if scram is not None:
            records += [_scram_record(scram, *user, random) for user in self._passwords.items()]
        if self.mode.knows_users:
            principal = f"User:CN={USER}" if self.mode.mutual else f"User:{USER}"
            for resource_type, operations in _RIGHTS.items():
                records += [
                    FramedRecord(
                        AccessControlEntryRecord(
                            id=random_uuid(random),
                            resource_type=resource_type,
                            resource_name=_ANYTHING,
                            pattern_type=_LITERAL,
                            principal=principal,
                            host=_ANYTHING,
                            operation=operation,
                            permission_type=_ALLOW,
                        ),
                        0,
                    )
                    for operation in operations
                ]
        return tuple(records)

    # --- the clients' side -------------------------------------------------------------------------------------------------

    def client_properties(self, user: str = USER) -> dict[str, str]:
        """What a Java client, or `--command-config`, is given to speak as a user."""
        mode = self.mode
        properties = {"security.protocol": mode.protocol}
        if mode.tls:
            properties |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": f"{self.directory}/ca.pem"}
        if mode.mutual:
            properties |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": f"{self.directory}/{user}.pem"}
        if mode.mechanism is not None:
            properties |= {"sasl.mechanism": mode.mechanism, "sasl.jaas.config": self._jaas(user)}
        return properties

    def client_options(self, user: str = USER) -> ClientOptions:
        """The same as keyword arguments of Tidelog's own clients."""
        options: ClientOptions = {}
        for name, value in self.client_properties(user).items():
            options[name.replace(".", "_")] = value  # type: ignore[literal-required]
        return options

    def librdkafka_properties(self, user: str = USER) -> dict[str, str]:
        """The same for librdkafka: confluent-kafka, kcat."""
        mode = self.mode
        properties = {"security.protocol": mode.protocol}
        if mode.tls:
            properties["ssl.ca.location"] = f"{self.directory}/ca.pem"
        if mode.mutual:
            store = f"{self.directory}/{user}.pem"
            properties |= {"ssl.certificate.location": store, "ssl.key.location": store}
        if mode.mechanism == "OAUTHBEARER":
            properties |= {
                "sasl.mechanism": mode.mechanism,
                "enable.sasl.oauthbearer.unsecure.jwt": "true",
                "sasl.oauthbearer.config": f"principal={user}",
            }
        elif mode.mechanism is not None:
            properties |= {
                "sasl.mechanism": mode.mechanism,
                "sasl.username": user,
                "sasl.password": self._passwords[user],
            }
        return properties

    def lines(self) -> list[str]:
        """What a person is told, once the cluster serves."""
        mechanism = "" if self.mode.mechanism is None else f" with {self.mode.mechanism}"
        who = "as alice; admin.properties as admin" if self.mode.knows_users else "for everybody"
        return [
            f"{self.mode.protocol}{mechanism}; {self.directory}/client.properties {who}",
            f"  Java, tidelog: --command-config {self.directory}/client.properties",
            f"  librdkafka:    kcat -F {self.directory}/client-librdkafka.properties",
        ]

    # --- making it ---------------------------------------------------------------------------------------------------------

    def _make(self, files: Files, nodes: Sequence[LocalNode], clock: Clock) -> None:
        # Slow to import, and only the first start of a secured cluster needs it.
        from tidelog.security.certificate_authority import CertificateAuthority  # noqa: PLC0415

        files.make_directory(self.directory)
        authority = CertificateAuthority.create(datetime.fromtimestamp(clock.now_ms() / 1000, UTC))
        files.write_bytes_atomically(f"{self.directory}/ca.pem", authority.certificate_pem)
        for node in nodes:
            name = f"node-{node.node_id}"
            files.write_bytes_atomically(
                f"{self.directory}/{name}.pem", _store(authority.node_certificate(_HOSTS, name=name))
            )
        for user in (ADMIN, USER) if self.mode.mutual else ():
            files.write_bytes_atomically(f"{self.directory}/{user}.pem", _store(authority.client_certificate(user)))
        for name, properties in (
            ("client.properties", self.client_properties()),
            (_ADMIN_FILE, self.client_properties(ADMIN)),
            ("client-librdkafka.properties", self.librdkafka_properties()),
        ):
            files.write_bytes_atomically(f"{self.directory}/{name}", format_properties(properties))

    def _jaas(self, user: str, *, lets_in: bool = False) -> str:
        """Whom somebody says to be, and, for a node, whom it lets in."""
        mechanism = self.mode.mechanism
        assert mechanism is not None
        if mechanism == "OAUTHBEARER":
            options = {"unsecuredLoginStringClaim_sub": user}
        else:
            options = {"username": user, "password": self._passwords[user]}
            if lets_in and mechanism == "PLAIN":
                options |= {f"user_{name}": password for name, password in self._passwords.items()}
        return (
            " ".join((_LOGIN_MODULES[mechanism], "required", *(f'{name}="{text}"' for name, text in options.items())))
            + ";"
        )


def _scram_record(mechanism: ScramMechanism, user: str, password: str, random: Random) -> FramedRecord:
    credential = derive_credential(mechanism, password, new_salt(random), ITERATIONS_MIN)
    return FramedRecord(
        UserScramCredentialRecord(
            name=user,
            mechanism=mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        ),
        0,
    )


def _store(certificate: Certificate) -> bytes:
    """Key and certificates in one file, as `ssl.keystore.type=PEM` has it."""
    return certificate.key_pem + certificate.chain_pem


def _password(random: Random) -> str:
    """Letters, digits, - and _: nothing that a properties file, a shell or JAAS would read otherwise."""
    return base64.urlsafe_b64encode(random.randbytes(_PASSWORD_BYTES)).decode()
