"""`tidelog topics`, `configs` and `cluster` against a node, mistakes included."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator

import pytest
from typer.testing import Result

from tests.support.command_line import json_lines, tidelog
from tidelog.testing import EmbeddedCluster

Command = Callable[..., Result]


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture
def command(cluster: EmbeddedCluster) -> Command:
    """Run a command against the cluster."""
    return lambda *arguments: tidelog(*arguments, "--bootstrap", cluster.bootstrap_servers)


@pytest.fixture
def topic(cluster: EmbeddedCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    name = request.node.name.partition("[")[0]
    cluster.create_topic(name, partitions=2, configs={"retention.ms": "1000"})
    yield name
    cluster.delete_topic(name, missing_ok=True)


def refused(result: Result, code: int = 1) -> str:
    """The one sentence of a command that failed."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    return result.stderr.strip()


def test_a_topic_is_created_listed_and_deleted(command: Command) -> None:
    created = command("topics", "create", "life", "--partitions", "3", "--config", "cleanup.policy=compact")
    listed = [row for row in json_lines(command("topics", "list", "--json")) if row["topic"] == "life"]
    deleted = command("topics", "delete", "life")

    assert created.stdout == "created topic life\n"
    assert [(row["partitions"], row["replication_factor"], row["internal"]) for row in listed] == [(3, 1, False)]
    assert deleted.stdout == "deleted topic life\n"
    assert "life" not in command("topics", "list").stdout


def test_a_topic_without_counts_gets_the_clusters(command: Command) -> None:
    assert command("topics", "create", "defaults").exit_code == 0

    (row,) = json_lines(command("topics", "describe", "defaults", "--json"))

    assert (row["partitions"], row["configs"]) == (1, {})


def test_describe_shows_partitions_and_what_is_configured(command: Command, topic: str) -> None:
    (row,) = json_lines(command("topics", "describe", topic, "--json"))
    text = command("topics", "describe", topic).stdout.splitlines()

    assert row["configs"] == {"retention.ms": "1000"}
    assert [each["leader"] for each in row["partition_list"]] == [1, 1]
    assert text[0] == f"topic {topic}, id {row['id']}"
    assert text[1] == "retention.ms=1000"
    assert text[2].split() == ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN", "SYNC", "OFFLINE"]
    assert len(text) == 5


def test_partitions_are_added_and_never_taken(command: Command, topic: str) -> None:
    more = command("topics", "add-partitions", topic, "--total", "4")
    fewer = command("topics", "add-partitions", topic, "--total", "3")

    assert more.stdout == f"topic {topic} has 4 partitions now\n"
    assert refused(fewer, 2) == f"tidelog topics: topic {topic} has 4 partitions, and can only get more"


def test_what_exists_or_does_not_may_be_no_error(command: Command, topic: str) -> None:
    assert command("topics", "create", topic, "--if-not-exists").stdout == f"topic {topic} exists already\n"
    assert command("topics", "delete", "nothing", "--if-exists").stdout == "there is no topic nothing\n"


def test_a_configuration_is_changed_and_given_back(command: Command, topic: str) -> None:
    command("configs", "set", "topic", topic, "retention.ms=5", "segment.bytes=2000000")
    changed = {row["name"]: row for row in json_lines(command("configs", "show", "topic", topic, "--json"))}
    command("configs", "unset", "topic", topic, "retention.ms", "segment.bytes")
    after = {row["name"]: row for row in json_lines(command("configs", "show", "topic", topic, "--all", "--json"))}

    assert (changed["retention.ms"]["value"], changed["retention.ms"]["source"]) == ("5", "topic")
    assert changed["segment.bytes"]["value"] == "2000000"
    assert (after["retention.ms"]["value"], after["retention.ms"]["source"]) == ("604800000", "default")


def test_a_bad_value_changes_nothing(command: Command, topic: str) -> None:
    refusal = refused(command("configs", "set", "topic", topic, "segment.bytes=2000000", "retention.ms=soon"))
    rows = {row["name"]: row["value"] for row in json_lines(command("configs", "show", "topic", topic, "--json"))}

    assert refusal.startswith("tidelog configs: Invalid value soon for configuration retention.ms")
    assert "segment.bytes" not in rows


def test_a_broker_and_all_brokers_are_configured(command: Command) -> None:
    command("configs", "set", "broker", "default", "log.retention.ms=777")
    default = {row["name"]: row for row in json_lines(command("configs", "show", "broker", "default", "--json"))}
    broker = {row["name"]: row for row in json_lines(command("configs", "show", "broker", "1", "--json"))}
    command("configs", "unset", "broker", "default", "log.retention.ms")

    assert default["log.retention.ms"]["value"] == "777"
    assert (broker["log.retention.ms"]["value"], broker["log.retention.ms"]["source"]) == ("777", "all brokers")
    assert broker["node.id"]["source"] == "server.properties"


def test_keys_are_explained(command: Command, topic: str) -> None:
    lines = command("configs", "show", "topic", topic, "--docs").stdout.splitlines()

    explained = lines[lines.index("retention.ms=1000") + 1]
    assert explained.startswith("    ")
    assert explained.strip() != "no documentation"


def test_the_cluster_is_described(command: Command, cluster: EmbeddedCluster) -> None:
    described = json.loads(command("cluster", "describe", "--json").stdout)
    text = command("cluster", "describe").stdout

    assert described["cluster"] == cluster.cluster_id
    assert [broker["node"] for broker in described["brokers"]] == [1]
    assert described["quorum"]["leader"] == 1
    assert text.startswith(f"cluster {cluster.cluster_id}\nmetadata led by node 1 in epoch ")


def test_the_cluster_may_be_named_before_the_command(cluster: EmbeddedCluster) -> None:
    there = ["--bootstrap", cluster.bootstrap_servers]
    nowhere = ["--bootstrap", "127.0.0.1:1"]

    for arguments in (
        [*there, "cluster", "describe", "--json"],
        ["cluster", *there, "describe", "--json"],
        [*nowhere, "cluster", *there, "describe", "--json"],
        [*nowhere, "cluster", *nowhere, "describe", "--json", *there],
    ):
        assert json.loads(tidelog(*arguments).stdout)["cluster"] == cluster.cluster_id
    assert "127.0.0.1:1" in refused(tidelog(*nowhere, "consume", "cargoes"), 1)
    useless = tidelog(*there, "version")
    assert (useless.exit_code, useless.stdout) == (2, "")
    assert "this command talks to no cluster" in useless.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["topics", "describe", "cargoes-1"], "tidelog topics: there is no topic cargoes-1; did you mean cargoes?"),
        (["topics", "delete", "crgoes"], "tidelog topics: there is no topic crgoes; did you mean cargoes?"),
        (["configs", "show", "topic", "cargos"], "tidelog configs: there is no topic cargos; did you mean cargoes?"),
        (["groups", "reset-offsets", "g", "cargos", "--to-latest"], "there is no topic cargos; did you mean cargoes?"),
        (["consume", "cargos"], "tidelog consume: there is no topic cargos; did you mean cargoes?"),
        (
            ["topics", "create", "x", "--config", "retenton.ms=1"],
            "name: retenton.ms (INVALID_CONFIG); did you mean retention.ms?",
        ),
        (["configs", "set", "topic", "cargoes", "a=1", "retenton.ms=1"], "name: a (INVALID_CONFIG)"),
        (["configs", "set", "topic", "cargoes", "cleanup.polcy=compact"], "did you mean cleanup.policy?"),
        (["configs", "set", "topic", "cargoes", "cleanup.policy=x"], "cleanup.policy"),
    ],
)
def test_a_name_that_is_nearly_right_is_proposed(command: Command, arguments: list[str], sentence: str) -> None:
    assert command("topics", "create", "cargoes", "--if-not-exists").exit_code == 0

    assert sentence in refused(command(*arguments), 1)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["cluster", "unregister", "1"], 1, "tidelog cluster: broker 1 still serves: stop it first"),
        (["cluster", "unregister", "7"], 1, "tidelog cluster: broker 7: "),
        (["topics", "describe", "nothing"], 1, "tidelog topics: there is no topic nothing"),
        (["topics", "delete", "nothing"], 1, "tidelog topics: there is no topic nothing"),
        (["topics", "add-partitions", "nothing", "--total", "2"], 1, "tidelog topics: there is no topic nothing"),
        (["topics", "create", "a b"], 1, "tidelog topics: Topic name is invalid"),
        (["topics", "create", "x", "--config", "retenton.ms=1"], 1, "tidelog topics: Unknown topic config name"),
        (["topics", "create", "x", "--config", "retention.ms"], 2, "tidelog topics: 'retention.ms' is not a setting"),
        (["topics", "create", "x", "--replication-factor", "3"], 1, "tidelog topics: Unable to replicate"),
        (["configs", "show", "topic", "nothing"], 1, "tidelog configs: there is no topic nothing"),
        (["configs", "set", "topic", "nothing", "retention.ms=1"], 1, "tidelog configs: there is no topic nothing"),
        (["configs", "show", "broker", "7"], 1, "tidelog configs: the cluster has no broker 7 at the moment"),
        (["configs", "show", "broker", "first"], 2, "tidelog configs: 'first' is not a broker"),
    ],
)
def test_a_mistake_is_one_sentence(command: Command, arguments: list[str], code: int, sentence: str) -> None:
    assert refused(command(*arguments), code).startswith(sentence)


def test_a_cluster_that_is_not_there_is_one_sentence_with_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as once_taken:
        address = f"127.0.0.1:{once_taken.getsockname()[1]}"

    sentence = refused(tidelog("topics", "list", "--bootstrap", address))

    assert sentence.startswith(f"tidelog topics: cannot connect to {address}: connection refused; ")
    assert "tidelog up" in sentence


def test_the_second_of_two_nodes_will_do(cluster: EmbeddedCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as once_taken:
        address = f"127.0.0.1:{once_taken.getsockname()[1]}"

    result = tidelog("cluster", "describe", "--bootstrap", f"{address},{cluster.bootstrap_servers}")

    assert result.exit_code == 0


def test_an_address_that_is_none_is_one_sentence() -> None:
    assert refused(tidelog("topics", "list", "--bootstrap", "here:there"), 2).startswith("tidelog topics: 'here:there'")
