"""Three processes that are one secured cluster: a node dies while certificates are replaced and clients write."""

from __future__ import annotations

import ssl
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.cluster_load import ConfluentLoad, OurLoad, check_nothing_lost_or_doubled, wait_until
from tests.support.secured_processes import SecuredProcesses, rights, until_in_sync
from tidelog import Admin
from tidelog.client.admin import ResourceKind, value_of
from tidelog.client.admin.topics import NewTopic

TOPIC = "orders"
# Nodes 1 and 2 lead one of them each; the third only follows. All of them are controllers.
REPLICAS = [[1, 2, 3], [2, 3, 1]]


def shown(addresses: Iterable[tuple[str, int]], truststore: Path) -> list[str]:
    """The certificates that nodes show now."""
    return [ssl.get_server_certificate(each, ca_certs=str(truststore), timeout=30) for each in addresses]


@pytest.mark.parametrize("victim", [1, 3])
def test_a_node_dies_while_certificates_are_replaced_and_nothing_is_lost(tmp_path: Path, victim: int) -> None:
    secured = SecuredProcesses(tmp_path, from_the_start=True)
    alice = secured.client("alice")

    def replace_certificate(admin: Admin, number: int) -> None:
        new = secured.new_certificate(number)["ssl.keystore.location"]
        changes = {f"listener.name.{name}.ssl.keystore.location": new for name in ("sasl_ssl", "controller")}
        admin.alter_config(ResourceKind.BROKER, str(number), set=changes)

    with secured.processes.running(), secured.admin() as admin:
        value_of(admin.create_topics([NewTopic(TOPIC, replicas=REPLICAS)])[TOPIC])
        assert set(admin.create_acls(rights("User:alice", TOPIC)).values()) == {None}
        loads = [
            ConfluentLoad(secured.bootstrap, TOPIC, 0, settings=alice),
            OurLoad(secured.bootstrap, TOPIC, 1, settings=alice),
        ]
        before = shown(secured.addresses, secured.truststore)
        with ExitStack() as writing:
            for load in loads:
                writing.enter_context(load)
                load.until_written()
            replace_certificate(admin, 2)
            secured.nodes[victim].kill()
            secured.new_certificate(victim)
            for number in secured.nodes:
                if number not in (2, victim):
                    replace_certificate(admin, number)
            for load in loads:
                load.until_written()
            secured.processes.start(victim)
            until_in_sync(admin, TOPIC)
            replace_certificate(admin, 2)
            for load in loads:
                load.until_written()
            wait_until(
                lambda: not set(before) & set(shown(secured.addresses, secured.truststore)),
                "every node shows a new certificate",
            )
        check_nothing_lost_or_doubled(secured.bootstrap, loads, alice)

    for node in secured.nodes.values():
        assert "Traceback" not in node.log
