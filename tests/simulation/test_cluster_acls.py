"""Three whole nodes with an authoriser, on virtual time: nodes trust each other, clients have the rights that ACLs give them,
whichever broker they ask and whoever is the active controller."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.access_table import creation, topic
from tests.support.simulated_cluster import SimulatedCluster, Writer
from tests.support.simulated_node import Asker
from tidelog.model.acl import AclOperation, PatternType
from tidelog.model.authorizer_config import STANDARD_AUTHORIZER
from tidelog.model.errors import ErrorCode
from tidelog.model.principal import Principal
from tidelog.net.connection import Connection, FrameHandler
from tidelog.net.socket_server import SocketServer
from tidelog.wire.messages.acls import AclCreation, CreateAclsRequest, CreateAclsResponse

GUARDED = {"authorizer.class.name": STANDARD_AUTHORIZER, "super.users": "User:node"}


class PeersByHost:
    """Whoever comes from a node's machine is a node; everybody else is the client."""

    def __init__(self, handler: FrameHandler) -> None:
        self._handler = handler
        self.frame = handler.frame
        self.frames_done = handler.frames_done
        self.connection_closed = handler.connection_closed

    def connection_opened(self, connection: Connection) -> None:
        connection.principal = Principal("User", "node" if connection.host.startswith("node-") else "client")
        self._handler.connection_opened(connection)


@pytest.fixture(autouse=True)
def peers_by_host(monkeypatch: pytest.MonkeyPatch) -> None:
    listen = SocketServer.listen

    async def listen_by_host(
        server: SocketServer, name: str, host: str, port: int, handler: FrameHandler, **options: Any
    ) -> Any:
        return await listen(server, name, host, port, PeersByHost(handler), **options)

    monkeypatch.setattr(SocketServer, "listen", listen_by_host)


def rights(prefix: str, *operations: AclOperation) -> list[AclCreation]:
    made = [creation(topic(operation, prefix), user="client") for operation in operations]
    for each in made:
        each.resource_pattern_type = PatternType.PREFIXED
    return made


async def give(cluster: SimulatedCluster, acls: list[AclCreation]) -> None:
    """Have ACLs, asked for by a node, on all nodes."""
    node = cluster.nodes[0]
    answer = node.forward(CreateAclsRequest(creations=acls), CreateAclsResponse, None)
    await cluster.until(lambda: answer.is_complete, "the ACLs to be decided")
    assert not any(each.error_code for each in answer.value.results)
    await cluster.until(
        lambda: all(len(each.image.access_control) == len(acls) for each in cluster.nodes), "the ACLs everywhere"
    )


async def created(cluster: SimulatedCluster, node: str, name: str) -> int:
    asker = Asker(cluster, node)
    try:
        return await asker.create(name, replicas=3)
    finally:
        asker.close()


@pytest.mark.parametrize("seed", range(3))
def test_every_broker_and_every_controller_holds_a_client_to_its_rights(seed: int) -> None:
    async def story(cluster: SimulatedCluster) -> None:
        await cluster.start()
        for number in cluster.machines:
            code = await created(cluster, f"node-{number}", "orders")
            assert code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await give(
            cluster,
            rights("orders", AclOperation.CREATE, AclOperation.WRITE, AclOperation.READ),
        )
        for number in cluster.machines:
            assert await created(cluster, f"node-{number}", f"orders-{number}") == ErrorCode.NONE
            assert await created(cluster, f"node-{number}", "other") == ErrorCode.TOPIC_AUTHORIZATION_FAILED

        writer = Writer(cluster, "orders-1")
        for _ in range(10):
            await writer.write()
        assert await writer.read() == writer.acknowledged
        # Followers are let in: nodes act for the cluster.
        await cluster.until(
            lambda: set(cluster.log_end_offsets("orders-1").values()) == {(10, 10)}, "the records on all three"
        )

        former = cluster.active
        assert former is not None
        await former.kill()
        await cluster.until(lambda: cluster.active not in (None, former), "another active controller", within_s=60)
        rest = next(number for number in cluster.machines if number != former.number)
        assert await created(cluster, f"node-{rest}", "other") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await former.begin()
        await cluster.until(lambda: len(cluster.nodes) == 3, "the third node")
        # It knows the ACLs again before it serves anybody.
        assert await created(cluster, former.name, "other") == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert await created(cluster, former.name, "orders-again") == ErrorCode.NONE
        for _ in range(5):
            await writer.write()
        assert await writer.read() == writer.acknowledged

    SimulatedCluster(seed, config=GUARDED).run(story)
