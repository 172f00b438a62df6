"""Commands against a listener that wants to know who is there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import tidelog
from tests.support.running_node import RunningNode
from tests.support.sasl_node import PASSWORD, SCRAM_MODULE, USER, add_scram_user, sasl_bootstrap, sasl_settings
from tests.support.secure_node import SASL_SSL, SecureNode
from tidelog import Producer
from tidelog.model.authorizer_config import STANDARD_AUTHORIZER


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(tmp_path_factory.mktemp("node"), settings=sasl_settings()) as running:
        add_scram_user(running)
        yield running


def client_properties(directory: Path, password: str = PASSWORD, **more: str) -> Path:
    file = directory / "client.properties"
    jaas = f'{SCRAM_MODULE} required \\\n  username="{USER}" \\\n  password="{password}";'
    lines = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.jaas.config": jaas,
        **{name.replace("_", "."): text for name, text in more.items()},
    }
    file.write_text("".join(f"{name}={text}\n" for name, text in lines.items()))
    return file


def test_every_kind_of_command_logs_in_as_the_file_says(node: RunningNode, tmp_path: Path) -> None:
    file = client_properties(tmp_path, linger_ms="0", ssl_provider="SunJSSE")
    cluster = ("--bootstrap", sasl_bootstrap(node), "--command-config", file)
    records = tmp_path / "records"
    records.write_text("one\ntwo\n")

    created = tidelog("topics", "create", "orders", *cluster)
    produced = tidelog("produce", "orders", records, *cluster)
    consumed = tidelog("consume", "orders", *cluster)
    of_group = tidelog("consume", "orders", "--group", "g", *cluster)
    groups = tidelog("groups", "list", *cluster)

    assert created.exit_code == 0, created.stderr
    assert produced.exit_code == 0, produced.stderr
    assert consumed.stdout == of_group.stdout == "one\ntwo\n"
    assert "g" in groups.stdout
    assert "no client has ssl.provider, which is ignored" in created.stderr


def test_the_variable_stands_for_the_option_and_keys_of_the_command_line_go_before_it(
    node: RunningNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDELOG_COMMAND_CONFIG", str(client_properties(tmp_path, "wrong")))
    jaas = f'sasl.jaas.config={SCRAM_MODULE} required username="{USER}" password="{PASSWORD}";'

    refused = tidelog("topics", "list", "--bootstrap", sasl_bootstrap(node))
    listed = tidelog("topics", "list", "--bootstrap", sasl_bootstrap(node), "-X", jaas)

    assert listed.exit_code == 0, listed.stderr
    assert refused.exit_code == 1
    assert refused.stderr == (
        f"tidelog topics: cannot connect to {sasl_bootstrap(node)}: the login with SCRAM-SHA-256 failed: "
        "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256\n"
    )


@pytest.mark.parametrize("command", [("topics", "list"), ("consume", "orders"), ("produce", "orders")])
def test_a_plain_command_at_a_listener_with_sasl_says_what_to_set(node: RunningNode, command: tuple[str, ...]) -> None:
    bootstrap = sasl_bootstrap(node)

    result = tidelog(*command, "--bootstrap", bootstrap)

    assert result.exit_code == 1
    assert result.stderr == (
        f"tidelog {command[0]}: connection to {bootstrap} broke: closed by the node; if its listener wants a login, "
        "set security.protocol to SASL_PLAINTEXT or SASL_SSL, and sasl.mechanism: "
        "such keys go into the file of --command-config\n"
    )


def test_a_store_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    result = tidelog(
        "topics", "list", "--bootstrap", "127.0.0.1:1", "-X", "security.protocol=SSL", "-X",
        f"ssl.truststore.location={tmp_path / 'none'}",
    )  # fmt: skip

    assert result.exit_code == 2
    assert result.stderr == (
        f"tidelog topics: the trust store {tmp_path / 'none'} cannot be used: No such file or directory\n"
    )


def test_the_file_may_name_the_cluster_too(node: RunningNode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIDELOG_BOOTSTRAP", raising=False)
    file = client_properties(tmp_path, bootstrap_servers=sasl_bootstrap(node))
    with Producer(bootstrap_servers=node.bootstrap) as producer:
        producer.send("there", b"x").result(30)

    result = tidelog("topics", "list", "--command-config", file)

    assert "there" in result.stdout


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecureNode]:
    settings = {
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": f"User:{USER};User:ANONYMOUS",
        "delegation.token.secret.key": "a secret of tokens",
        "offsets.topic.num.partitions": "1",
    }
    with SecureNode(tmp_path_factory.mktemp("node"), settings=settings) as node:
        with Producer(**node.sasl()) as producer:
            producer.send("orders", b"one").result(30)
        yield node


@pytest.fixture(scope="module")
def over_tls(secure: SecureNode, tmp_path_factory: pytest.TempPathFactory) -> tuple[str | Path, ...]:
    """What a command needs to know."""
    directory = tmp_path_factory.mktemp("client")
    file = client_properties(directory, ssl_truststore_location=str(secure.truststore))
    file.write_text(file.read_text().replace("SASL_PLAINTEXT", "SASL_SSL"))
    return ("--bootstrap", secure.bootstrap(SASL_SSL), "--command-config", file)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("topics", "list"), "orders"),
        (("topics", "describe", "orders"), "orders"),
        (("configs", "set", "topic", "orders", "retention.ms=1000"), "retention.ms"),
        (("configs", "show", "topic", "orders"), "retention.ms"),
        (("configs", "unset", "topic", "orders", "retention.ms"), "retention.ms"),
        (("cluster", "describe"), "127.0.0.1"),
        (("cluster", "status"), "1"),
        (("groups", "list"), ""),
        (("transactions", "list"), ""),
        (("transactions", "find-hanging", "--broker", "1"), ""),
        (("acls", "add", "--allow-principal", "User:bob", "--operation", "read", "--topic", "orders"), "bob"),
        (("acls", "list"), "bob"),
        (("quotas", "set", "producer_byte_rate=1000000", "--user", "bob"), "producer_byte_rate=1000000"),
        (("quotas", "list"), "bob"),
        (("users", "list"), USER),
        (("tokens", "create"), "token"),
        (("tokens", "list"), USER),
        (("reassign", "status"), ""),
    ],
    ids=lambda value: " ".join(map(str, value[:2])) if isinstance(value, tuple) else "",
)
def test_every_command_speaks_tls_and_logs_in(
    over_tls: tuple[str | Path, ...], arguments: tuple[str, ...], said: str
) -> None:
    result = tidelog(*arguments, *over_tls)

    assert result.exit_code == 0, result.output
    assert said in result.stdout
    assert PASSWORD not in result.output


def test_a_plan_is_made_and_carried_out_over_tls(over_tls: tuple[str | Path, ...], tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    wanted = [{"topic": "orders", "partition": 0, "replicas": [1], "log_dirs": ["any"]}]
    plan.write_text(json.dumps({"version": 1, "partitions": wanted}))

    applied = tidelog("reassign", "apply", plan, *over_tls)

    assert applied.exit_code == 0, applied.output
