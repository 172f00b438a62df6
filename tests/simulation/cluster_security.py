"""Simulated clusters in which everybody logs in, again and again, may do what ACLs say, and is held to quotas."""

from __future__ import annotations

from tests.support.access_table import Right, creation
from tests.support.simulated_node import Asker
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.authorizer_config import STANDARD_AUTHORIZER
from tidelog.model.errors import ErrorCode
from tidelog.net.connection_security import ConnectionSecurity
from tidelog.security.sasl.client_login import SaslLogin
from tidelog.security.sasl.plain import PlainClient
from tidelog.security.sasl.scram_credential import ScramMechanism, salted_password
from tidelog.simulation.cluster import SimulatedCluster
from tidelog.wire.messages.acls import CreateAclsRequest, CreateAclsResponse
from tidelog.wire.messages.client_quotas import (
    AlterClientQuotasEntryData,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
)
from tidelog.wire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialUpsertion,
)

ADMIN, USER, NODE = "admin", "alice", "node"
# The clients' credential is in the metadata log, that of nodes and administrators in their configuration.
MECHANISM = ScramMechanism.SCRAM_SHA_256
ITERATIONS = 4096
SALT = b"some salt of some length"
PASSWORDS = {ADMIN: "admin's", USER: "alice's", NODE: "nodes'"}

_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_LOGIN = (
    f'{_MODULE} required username="{NODE}" password="{PASSWORDS[NODE]}" '
    + " ".join(f'user_{name}="{password}"' for name, password in PASSWORDS.items() if name != USER)
    + ";"
)
SECURED = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": f"PLAIN,{MECHANISM.mechanism_name}",
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "sasl.mechanism.controller.protocol": "PLAIN",
    "listener.name.plaintext.plain.sasl.jaas.config": _LOGIN,
    "listener.name.controller.plain.sasl.jaas.config": _LOGIN,
    "quota.window.num": "2",
    # Several times in a history, in the midst of its misfortunes.
    "connections.max.reauth.ms": "1500",
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": f"User:{NODE};User:{ADMIN}",
}
# What the loads do, and nothing more.
RIGHTS = (
    Right(AclOperation.READ, ResourceType.TOPIC, "orders"),
    Right(AclOperation.WRITE, ResourceType.TOPIC, "orders"),
    Right(AclOperation.READ, ResourceType.GROUP, "readers"),
    Right(AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, "payments"),
)
# Low enough to be met in every history, and high enough for it to end.
QUOTAS = {"producer_byte_rate": 300.0, "consumer_byte_rate": 600.0, "request_percentage": 200.0}


def is_secured(cluster: SimulatedCluster) -> bool:
    return any("authorizer.class.name" in machine.config for machine in cluster.machines.values())


def client_options(cluster: SimulatedCluster) -> dict[str, object]:
    """What our own clients are told, so that they get in."""
    if not is_secured(cluster):
        return {}
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": MECHANISM.mechanism_name,
        "sasl_username": USER,
        "sasl_password": PASSWORDS[USER],
    }


def new_asker(cluster: SimulatedCluster, host: str) -> Asker:
    """An administrator."""
    if not is_secured(cluster):
        return Asker(cluster, host)
    return Asker(
        cluster,
        host,
        security=ConnectionSecurity(
            authentication=lambda _address: SaslLogin("PLAIN", PlainClient(ADMIN, PASSWORDS[ADMIN]), client_id="asker")
        ),
    )


async def prepare(cluster: SimulatedCluster) -> None:
    """Give the clients their password, their rights and their quotas, on all nodes; nothing where everybody may do everything."""
    if not is_secured(cluster):
        return
    asker = new_asker(cluster, "node-1")
    credential = ScramCredentialUpsertion(
        name=USER,
        mechanism=MECHANISM.value,
        iterations=ITERATIONS,
        salt=SALT,
        salted_password=salted_password(MECHANISM, PASSWORDS[USER], SALT, ITERATIONS),
    )
    users = await asker.call(
        AlterUserScramCredentialsRequest(deletions=[], upsertions=[credential]), AlterUserScramCredentialsResponse, 0
    )
    assert [each.error_code for each in users.results] == [ErrorCode.NONE]
    acls = await asker.call(
        CreateAclsRequest(creations=[creation(each, user=USER) for each in RIGHTS]), CreateAclsResponse, 3
    )
    assert [each.error_code for each in acls.results] == [ErrorCode.NONE] * len(RIGHTS)
    ops = [OpData(key=key, value=value, remove=False) for key, value in QUOTAS.items()]
    entity = [EntityData(entity_type="user", entity_name=USER)]
    request = AlterClientQuotasRequest(
        entries=[AlterClientQuotasEntryData(entity=entity, ops=ops)], validate_only=False
    )
    quotas = await asker.call(request, AlterClientQuotasResponse, 1)
    assert [each.error_code for each in quotas.entries] == [ErrorCode.NONE]
    asker.close()
    await cluster.until(
        lambda: all(_knows_all(cluster, number) for number in (1, 2, 3)), "rights and quotas everywhere"
    )


def logins_again(cluster: SimulatedCluster) -> int:
    """How often somebody has logged in again on a connection, to the nodes that serve now."""
    counts = (each for node in cluster.nodes for each in node.metrics.authentication.values())
    return sum(each.successful_reauthentication for each in counts)


def throttled(cluster: SimulatedCluster) -> bool:
    """Whether the clients were made to wait, lately, by a node that serves now."""
    for node in cluster.nodes:
        now_ms = node.quotas.now_ms()
        for kind in (node.quotas.produce, node.quotas.fetch):
            account = kind.account(USER, "", now_ms)
            if account is not None and account.throttle_time_ms(now_ms):
                return True
    return False


def _knows_all(cluster: SimulatedCluster, number: int) -> bool:
    node = cluster.machines[number].node
    if node is None:
        return False
    image = node.image
    return len(image.access_control) == len(RIGHTS) and bool(image.quotas) and bool(image.scram_credentials)
