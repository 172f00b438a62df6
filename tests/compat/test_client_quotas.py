"""`kafka-configs` sets, shows and removes the quotas of users, client ids and addresses on a node of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.apache_kafka import ApacheKafka, Output
from tests.support.tidelog_node import TidelogNode
from tidelog.client.admin import QUOTA_DEFAULT, Admin, QuotaEntity

pytestmark = pytest.mark.compat

CONFIGS = "kafka.admin.ConfigCommand"
Tool = Callable[..., Output]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogNode]:
    node = TidelogNode.at(tmp_path_factory.mktemp("node"))
    with node.running():
        yield node


@pytest.fixture
def configs(kafka: ApacheKafka, node: TidelogNode) -> Tool:
    def run(*arguments: str, fails: bool = False) -> Output:
        done = kafka.tool(CONFIGS, "--bootstrap-server", node.bootstrap, *arguments)
        assert (done.code != 0) is fails, f"{arguments}: {done}"
        return done

    return run


@pytest.mark.parametrize(
    ("entity", "key", "value", "ours", "shown"),
    [
        (
            ("--entity-type", "users", "--entity-name", "alice", "--entity-type", "clients", "--entity-default"),
            "producer_byte_rate",
            "1024",
            QuotaEntity(user="alice", client_id=QUOTA_DEFAULT),
            "user-principal 'alice', the default client-id",
        ),
        (
            ("--entity-type", "users", "--entity-default", "--entity-type", "clients", "--entity-name", "app"),
            "request_percentage",
            "12.5",
            QuotaEntity(user=QUOTA_DEFAULT, client_id="app"),
            "the default user-principal, client-id 'app'",
        ),
        (
            ("--entity-type", "clients", "--entity-default"),
            "controller_mutation_rate",
            "3.0",
            QuotaEntity(client_id=QUOTA_DEFAULT),
            "the default client-id",
        ),
        (
            ("--entity-type", "ips", "--entity-name", "10.1.2.3"),
            "connection_creation_rate",
            "100",
            QuotaEntity(ip="10.1.2.3"),
            "ip '10.1.2.3'",
        ),
    ],
)
def test_kafka_configs_sets_shows_and_removes_a_quota(
    configs: Tool, node: TidelogNode, entity: tuple[str, ...], key: str, value: str, ours: QuotaEntity, shown: str
) -> None:
    configs(*entity, "--alter", "--add-config", f"{key}={value}")

    described = configs(*entity, "--describe").stdout
    with Admin(bootstrap_servers=node.bootstrap) as admin:
        found = admin.describe_client_quotas()
    configs(*entity, "--alter", "--delete-config", key)

    assert f"Quota configs for {shown} are {key}={float(value)}" in described
    assert found == {ours: {key: float(value)}}
    assert configs(*entity, "--describe").stdout.strip() == ""


def test_what_is_wrong_with_a_quota_is_told_in_kafkas_words(configs: Tool) -> None:
    done = configs(
        *("--entity-type", "users", "--entity-name", "alice"),
        *("--alter", "--add-config", "producer_byte_rate=-5"),
        fails=True,
    )

    assert "must be greater than 0" in done.stdout + done.stderr
