"""A cluster of three that runs without security is given all of it, a node at a time, while clients write: nothing is lost."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.cluster_load import ConfluentLoad, Load, OurLoad, check_nothing_lost_or_doubled
from tests.support.secured_processes import SecuredProcesses, add_users, rights, until_in_sync
from tidelog import Admin, Producer
from tidelog.client.admin import AclBindingFilter
from tidelog.client.admin.topics import NewTopic
from tidelog.client.errors import ClientError, RefusedError
from tidelog.model.errors import ErrorCode

TOPIC = "orders"
ALICE, ANONYMOUS = "User:alice", "User:ANONYMOUS"


class Move:
    """The steps, each of them taken by one node after the other."""

    def __init__(self, secured: SecuredProcesses) -> None:
        self._secured = secured
        self._loads: list[Load] = []

    def write(self, *loads: Load) -> None:
        """These are the clients from now on."""
        self._loads = list(loads)

    def step(self, settings: Callable[[int], dict[str, str]], admin: Admin) -> None:
        """Restart every node with what is new, and see that clients go on at each."""
        nodes = self._secured.nodes
        for number, node in nodes.items():
            assert node.stop() == 0, node.log[-2000:]
            for load in self._loads:
                load.until_written(3)
            node.properties |= settings(number)
            self._secured.processes.start(number)
            until_in_sync(admin, TOPIC)
        for load in self._loads:
            load.until_written()


def address_of(bootstrap: str) -> tuple[str, int]:
    host, _, port = bootstrap.rpartition(":")
    return host, int(port)


def refused_code(bootstrap: str) -> ErrorCode:
    """What somebody without a name is told who writes."""
    with Producer(bootstrap_servers=bootstrap, enable_idempotence=False) as producer:
        with pytest.raises(RefusedError) as refused:
            producer.send(TOPIC, b"nobody's", partition=0).result(30)
        return refused.value.code


def test_a_cluster_is_secured_while_clients_write(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    secured = SecuredProcesses(tmp_path)
    plain = secured.processes.bootstrap
    alice = secured.client("alice")
    move = Move(secured)
    began_s = time.monotonic()

    with secured.processes.running(), ExitStack() as writing:
        with ExitStack() as writing_plainly, Admin(bootstrap_servers=plain) as anybody:
            assert not isinstance(
                anybody.create_topics([NewTopic(TOPIC, replicas=[[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 3, 2]])])[TOPIC],
                ClientError,
            )
            add_users(anybody)
            before = [ConfluentLoad(plain, TOPIC, 0), OurLoad(plain, TOPIC, 1)]
            for load in before:
                writing_plainly.enter_context(load)
            move.write(*before)

            move.step(secured.listens_securely, anybody)
            move.step(secured.speaks_securely, anybody)
            move.step(secured.asks_for_rights, anybody)

            admin = writing.enter_context(secured.admin())
            admin.create_acls([*rights(ALICE, TOPIC), *rights(ANONYMOUS, TOPIC)])
            after = [
                ConfluentLoad(secured.bootstrap, TOPIC, 2, settings=alice),
                OurLoad(secured.bootstrap, TOPIC, 3, settings=alice),
            ]
            for load in after:
                writing.enter_context(load)
            for load in (*before, *after):
                load.until_written()

        assert admin.delete_acls([AclBindingFilter(principal=ANONYMOUS)])
        code = refused_code(plain)
        move.write(*after)
        move.step(secured.is_secured, admin)
        writing.pop_all().close()
        check_nothing_lost_or_doubled(secured.bootstrap, [*before, *after], alice)
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address_of(plain.split(",")[0]))

    assert code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    gaps = ", ".join(f"{load.name} {load.longest_gap_s(began_s) * 1000:.0f} ms" for load in (*before, *after))
    record_property("summary", f"longest gap in acknowledged writes while a cluster is secured: {gaps}")
