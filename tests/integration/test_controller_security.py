"""A node that is a controller alone follows what is changed at run time: logins, stores and limits of its own listener."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from tests.support.cluster_processes import ClusterProcesses
from tests.support.raw_client import RawClient
from tests.support.running_node import DEADLINE_S
from tests.support.sasl_node import PLAIN_MODULE
from tests.support.tls_files import key_settings, new_authority
from tidelog import Admin
from tidelog.controller.configs import Operation
from tidelog.wire.messages.configs import (
    IncrementalAlterConfigsAlterableConfig,
    IncrementalAlterConfigsAlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

AUTHORITY = new_authority()
BROKER = 4
JAAS = "listener.name.controller.plain.sasl.jaas.config"


def login(*more: str) -> str:
    return " ".join([f'{PLAIN_MODULE} required username="node" password="n" user_node="n"', *more]) + ";"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterProcesses]:
    directory = tmp_path_factory.mktemp("cluster")
    (directory / "ca.pem").write_bytes(AUTHORITY.certificate_pem)
    cluster = ClusterProcesses(
        directory,
        2,
        roles={1: "controller", 2: "broker"},
        settings={
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SASL_SSL",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.controller.protocol": "PLAIN",
            JAAS: login('user_admin="a"'),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(directory / "ca.pem"),
            **key_settings("PEM", directory, "node", AUTHORITY.node_certificate(["127.0.0.1"])),
        },
    )
    with cluster.running():
        yield cluster


def called(cluster: ClusterProcesses) -> RawClient:
    return RawClient(cluster.controllers, cluster.directory / "ca.pem")


def set_at_controller(cluster: ClusterProcesses, name: str, value: str) -> tuple[int, str | None]:
    """As `kafka-configs --bootstrap-controller` does it."""
    change = IncrementalAlterConfigsAlterableConfig(name=name, config_operation=Operation.SET, value=value)
    resource = IncrementalAlterConfigsAlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[change])
    with called(cluster) as client:
        assert client.log_in("admin", "a")
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        (answer,) = client.call(request, IncrementalAlterConfigsResponse, 1).responses
    return answer.error_code, answer.error_message


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < deadline


def works(cluster: ClusterProcesses, topic: str) -> bool:
    """Whether the broker reaches its controller, and hears of what that has done."""
    with Admin(bootstrap_servers=cluster.bootstrap) as admin:
        admin.create_topic(topic)
        until(lambda: topic in {each.name for each in admin.list_topics()})
    return True


def test_a_user_who_is_added_can_log_in_to_the_controller_and_one_who_is_removed_cannot(
    cluster: ClusterProcesses,
) -> None:
    def gets_in(user: str, password: str) -> bool:
        with called(cluster) as client:
            return client.log_in(user, password)

    assert not gets_in("dora", "d")
    assert set_at_controller(cluster, JAAS, login('user_admin="a"', 'user_dora="d"')) == (0, None)
    until(lambda: gets_in("dora", "d"))
    assert set_at_controller(cluster, JAAS, login('user_admin="a"')) == (0, None)
    until(lambda: not gets_in("dora", "d"))
    assert works(cluster, "users")


def test_the_controller_shows_a_certificate_that_replaces_its_own_and_refuses_another_name(
    cluster: ClusterProcesses,
) -> None:
    def shown() -> str:
        with called(cluster) as client:
            return client.certificate_serial

    before = shown()
    location = "listener.name.controller.ssl.keystore.location"
    renewed = key_settings("PEM", cluster.directory, "renewed", AUTHORITY.node_certificate(["127.0.0.1"]))
    stranger = key_settings("PEM", cluster.directory, "stranger", AUTHORITY.client_certificate("stranger"))

    error, message = set_at_controller(cluster, location, stranger["ssl.keystore.location"])
    assert error == 42
    assert message is not None
    assert "Keystore DistinguishedName" in message
    assert shown() == before
    assert set_at_controller(cluster, location, renewed["ssl.keystore.location"]) == (0, None)
    until(lambda: shown() != before)
    assert works(cluster, "certificates")


def test_the_controller_takes_no_more_connections_than_it_is_told_to(cluster: ClusterProcesses) -> None:
    assert set_at_controller(cluster, "max.connections.per.ip", "1") == (0, None)

    def is_refused() -> bool:
        # The broker has one already.
        try:
            with called(cluster):
                return False
        except (OSError, ConnectionError):
            return True

    until(is_refused)
