"""Nodes as processes of their own that are made secure, or are so from the start: SASL_SSL for clients and between brokers,
certificates between controllers, an authoriser; and all that goes from one to the other, a node at a time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.support.cluster_load import ClientSettings, wait_until
from tests.support.cluster_processes import HOST, ClusterProcesses, free_ports
from tests.support.sasl_node import SCRAM_MODULE
from tests.support.tls_files import key_settings, new_authority, trust_settings
from tidelog import Admin
from tidelog.client.admin import AclBinding, AclOperation, ResourceType, UserScramUpsertion
from tidelog.client.errors import ClientError
from tidelog.model.authorizer_config import STANDARD_AUTHORIZER
from tidelog.security.sasl.scram_credential import ITERATIONS_MIN, ScramMechanism, derive_credential, new_salt
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.internal.cluster_security import UserScramCredentialRecord

MECHANISM = "SCRAM-SHA-512"
PASSWORDS = {"node": "nodes' own", "admin": "admin's own", "alice": "alice's own"}
HOSTS = ["localhost", HOST]


class SecuredProcesses:
    """Three nodes that speak PLAINTEXT, and what each of them is told on the way to SASL_SSL.

    With `from_the_start` they are all the way there, and their cluster begins with its users.
    """

    def __init__(self, directory: Path, *, from_the_start: bool = False) -> None:
        self.processes = ClusterProcesses(directory, records=_users() if from_the_start else ())
        self.nodes = self.processes.nodes
        self.authority = new_authority()
        self._directory = directory
        ports = iter(free_ports(2 * len(self.nodes)))
        self._secured = {number: next(ports) for number in self.nodes}
        self._controllers = {number: next(ports) for number in self.nodes}
        self._plain = {number: node.properties["listeners"] for number, node in self.nodes.items()}
        self.truststore = directory / "ca.pem"
        self.truststore.write_bytes(self.authority.certificate_pem)
        if from_the_start:
            for number, node in self.nodes.items():
                node.properties |= self._from_the_start(number)

    # --- the nodes' side ---------------------------------------------------------------------------------------------------

    def new_certificate(self, number: int) -> dict[str, str]:
        """A node's certificate is made, or made again in the same file. What the node is told of it."""
        certificate = self.authority.node_certificate(HOSTS, name=f"node-{number}")
        return key_settings("PEM", self._directory, f"node-{number}", certificate)

    def listens_securely(self, number: int) -> dict[str, str]:
        """Listeners with TLS beside those without; everything still goes by the latter."""
        listeners = [self._plain[number], *self._secured_listeners(number)]
        return {
            "listeners": ",".join(listeners),
            "controller.listener.names": "CONTROLLER,CONTROLLER_SSL",
            "listener.security.protocol.map": (
                "PLAINTEXT:PLAINTEXT,SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT,CONTROLLER_SSL:SSL"
            ),
            "sasl.enabled.mechanisms": MECHANISM,
            "sasl.mechanism.inter.broker.protocol": MECHANISM,
            f"listener.name.sasl_ssl.{MECHANISM.lower()}.sasl.jaas.config": _login("node"),
            "listener.name.controller_ssl.ssl.client.auth": "required",
            **self.new_certificate(number),
            **trust_settings("PEM", self._directory, "trusted", self.authority),
        }

    def speaks_securely(self, _number: int) -> dict[str, str]:
        """Brokers and controllers reach each other by the listeners with TLS."""
        return {
            "inter.broker.listener.name": "SASL_SSL",
            "controller.listener.names": "CONTROLLER_SSL,CONTROLLER",
            "controller.quorum.bootstrap.servers": ",".join(f"{HOST}:{each}" for each in self._controllers.values()),
        }

    def asks_for_rights(self, _number: int) -> dict[str, str]:
        """The authoriser is there, and lets everybody do what no ACL speaks of."""
        supers = ["User:node", "User:admin", *(f"User:CN=node-{each}" for each in self.nodes)]
        return {
            "authorizer.class.name": STANDARD_AUTHORIZER,
            "super.users": ";".join(supers),
            "allow.everyone.if.no.acl.found": "true",
        }

    def is_secured(self, number: int) -> dict[str, str]:
        """What is not secured is gone."""
        return {
            "listeners": ",".join(self._secured_listeners(number)),
            "controller.listener.names": "CONTROLLER_SSL",
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER_SSL:SSL",
            "allow.everyone.if.no.acl.found": "false",
        }

    def _from_the_start(self, number: int) -> dict[str, str]:
        """All of it at once, with the controllers where the first voters of the quorum are said to be."""
        listeners = [self._secured_listeners(number)[0], self._plain[number].split(",")[1]]
        return {
            **self.listens_securely(number),
            **self.asks_for_rights(number),
            "listeners": ",".join(listeners),
            "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:SSL",
            "inter.broker.listener.name": "SASL_SSL",
            "controller.listener.names": "CONTROLLER",
            "listener.name.controller.ssl.client.auth": "required",
            "allow.everyone.if.no.acl.found": "false",
        }

    def _secured_listeners(self, number: int) -> Sequence[str]:
        return (
            f"SASL_SSL://{HOST}:{self._secured[number]}",
            f"CONTROLLER_SSL://{HOST}:{self._controllers[number]}",
        )

    # --- the clients' side -------------------------------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """Where clients are served over SASL_SSL."""
        return ",".join(f"{HOST}:{port}" for port in self._secured.values())

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The same, one by one."""
        return [(HOST, port) for port in self._secured.values()]

    def client(self, user: str) -> ClientSettings:
        return ClientSettings(
            {
                "security_protocol": "SASL_SSL",
                "ssl_truststore_type": "PEM",
                "ssl_truststore_location": str(self.truststore),
                "sasl_mechanism": MECHANISM,
                "sasl_jaas_config": _login(user),
            },
            {
                "security.protocol": "SASL_SSL",
                "ssl.ca.location": str(self.truststore),
                "sasl.mechanism": MECHANISM,
                "sasl.username": user,
                "sasl.password": PASSWORDS[user],
            },
        )

    def admin(self) -> Admin:
        return Admin(bootstrap_servers=self.bootstrap, **self.client("admin").ours)


def add_users(admin: Admin) -> None:
    """All users, while everybody may still do everything."""
    told = admin.alter_user_scram_credentials(
        [UserScramUpsertion(user, password, ScramMechanism.SCRAM_SHA_512) for user, password in PASSWORDS.items()]
    )
    assert set(told.values()) == {None}, told


def rights(principal: str, topic: str) -> list[AclBinding]:
    """What it takes to write to a topic and to read it."""
    return [
        AclBinding(ResourceType.TOPIC, topic, principal, AclOperation.READ),
        AclBinding(ResourceType.TOPIC, topic, principal, AclOperation.WRITE),
        AclBinding(ResourceType.GROUP, "readers", principal, AclOperation.READ),
    ]


def _users() -> list[FramedRecord]:
    """The same users, in the log that a cluster begins with: nobody could log in to add them."""
    mechanism = ScramMechanism.SCRAM_SHA_512
    records = []
    for user, password in PASSWORDS.items():
        credential = derive_credential(mechanism, password, new_salt(Random()), ITERATIONS_MIN)
        record = UserScramCredentialRecord(
            name=user,
            mechanism=mechanism,
            salt=credential.salt,
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=credential.iterations,
        )
        records.append(FramedRecord(record, 0))
    return records


def until_in_sync(admin: Admin, topic: str) -> None:
    """Every replica of a topic is in sync."""

    def is_in_sync() -> bool:
        found = admin.describe_topics([topic])[topic]
        return not isinstance(found, ClientError) and all(
            set(each.in_sync) == set(each.replicas) for each in found.partitions
        )

    wait_until(is_in_sync, f"all replicas of {topic} are in sync")


def _login(user: str) -> str:
    return f'{SCRAM_MODULE} required username="{user}" password="{PASSWORDS[user]}";'
