"""Quotas by our admin and our command line, and what a client of somebody else's is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic

import confluent_kafka
import pytest
from typer.testing import Result

from tests.support.command_line import json_lines, tidelog
from tidelog.client.admin import QUOTA_DEFAULT, Admin, QuotaEntity
from tidelog.client.errors import ConfigError, RefusedError
from tidelog.model.errors import ErrorCode
from tidelog.testing import EmbeddedCluster

Command = Callable[..., Result]
DEADLINE_S = 60


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture(scope="module")
def admin(cluster: EmbeddedCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def command(cluster: EmbeddedCluster) -> Command:
    return lambda *arguments: tidelog(*arguments, "--bootstrap", cluster.bootstrap_servers)


def test_an_admin_sets_finds_and_removes_quotas(admin: Admin) -> None:
    both = QuotaEntity(user="alice", client_id="app")
    others = QuotaEntity(user=QUOTA_DEFAULT)

    changed = admin.alter_client_quotas(
        {both: {"producer_byte_rate": 1_048_576, "request_percentage": 12.5}, others: {"consumer_byte_rate": 5_000_000}}
    )

    assert changed == {both: None, others: None}
    assert admin.describe_client_quotas({"user": "alice"}) == {
        both: {"producer_byte_rate": 1_048_576.0, "request_percentage": 12.5}
    }
    assert admin.describe_client_quotas({"user": "alice"}, strict=True) == {}
    assert set(admin.describe_client_quotas({"user": None})) == {both, others}
    assert set(admin.describe_client_quotas({"user": QUOTA_DEFAULT})) == {others}
    admin.alter_client_quota(both, {"producer_byte_rate": None, "request_percentage": None})
    admin.alter_client_quota(others, {"consumer_byte_rate": None})
    assert admin.describe_client_quotas() == {}


def test_what_is_refused_is_told_for_each_and_what_is_validated_is_not_done(admin: Admin) -> None:
    good, bad = QuotaEntity(user="v"), QuotaEntity(client_id="v")

    outcome = admin.alter_client_quotas({good: {"producer_byte_rate": 1}, bad: {"nonsense": 1}}, validate_only=True)

    assert outcome[good] is None
    refusal = outcome[bad]
    assert isinstance(refusal, RefusedError)
    assert refusal.code is ErrorCode.INVALID_REQUEST
    assert "Invalid configuration key nonsense" in str(refusal)
    assert admin.describe_client_quotas() == {}
    with pytest.raises(ConfigError, match="name one"):
        admin.alter_client_quota(QuotaEntity(), {"producer_byte_rate": 1})


def test_the_command_sets_lists_and_removes(command: Command) -> None:
    assert command("quotas", "list").stdout == "there are no quotas\n"

    made = command(
        "quotas", "set", "producer_byte_rate=1000", "request_percentage=0.5", "--user", "alice", "--client-id-default"
    )

    assert made.exit_code == 0, made.output
    assert made.stdout == (
        "user alice, client-id (default): producer_byte_rate=1000\n"
        "user alice, client-id (default): request_percentage=0.5\n"
    )
    assert json_lines(command("quotas", "list", "--user", "alice", "--json")) == [
        {"user": "alice", "client-id": None, "key": "producer_byte_rate", "value": 1000.0},
        {"user": "alice", "client-id": None, "key": "request_percentage", "value": 0.5},
    ]
    assert "user alice, client-id (default)" in command("quotas", "list").stdout
    removed = command(
        "quotas", "remove", "producer_byte_rate", "request_percentage", "--user", "alice", "--client-id-default"
    )
    assert removed.exit_code == 0, removed.output
    assert command("quotas", "list").stdout == "there are no quotas\n"


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["set", "producer_byte_rate=1"], 2, "whose quota?"),
        (["set", "producer_byte_rate=x", "--user", "u"], 2, "'x' is not a quota for producer_byte_rate"),
        (["set", "producer_byte_rate", "--user", "u"], 2, "is not a setting"),
        (["set", "producer_byte_rate=1", "--user", "u", "--user-default"], 2, "cannot be given together"),
        (["set", "connection_creation_rate=1", "--ip", "::1", "--user", "u"], 2, "a quota of an address"),
        (["set", "producer_byte_rate=0", "--user", "u"], 1, "must be greater than 0"),
        (["set", "connection_creation_rate=5", "--ip", "nowhere.invalid"], 1, "nowhere.invalid is not a valid IP"),
        (["remove", "producer_byte_rate", "--user", ""], 2, "--user is empty"),
    ],
)
def test_mistakes_are_one_sentence(command: Command, arguments: list[str], code: int, sentence: str) -> None:
    result = command("quotas", *arguments)

    assert result.exit_code == code, result.output
    assert result.stdout == ""
    assert result.stderr.count("\n") == 1
    assert sentence in result.stderr


def test_an_address_may_be_the_name_of_a_host(admin: Admin) -> None:
    local = QuotaEntity(ip="localhost")

    admin.alter_client_quota(local, {"connection_creation_rate": 1_000_000})

    assert admin.describe_client_quotas({"ip": "localhost"}) == {local: {"connection_creation_rate": 1_000_000.0}}
    admin.alter_client_quota(local, {"connection_creation_rate": None})


def test_librdkafka_is_told_that_it_is_throttled(cluster: EmbeddedCluster, admin: Admin) -> None:
    cluster.create_topic("throttled")
    admin.alter_client_quota(QuotaEntity(client_id="greedy"), {"producer_byte_rate": 1_000})
    told: list[float] = []
    delivered: list[object] = []
    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "client.id": "greedy",
            "throttle_cb": lambda event: told.append(event.throttle_time),
            "linger.ms": 0,
        }
    )

    producer.produce("throttled", bytes(30_000), on_delivery=lambda error, _message: delivered.append(error))

    deadline = monotonic() + DEADLINE_S
    while (not told or not delivered) and monotonic() < deadline:
        producer.poll(0.1)
    # 30,000 bytes at 1,000 a second over ten seconds; and what was written was written at once.
    assert delivered == [None]
    assert told
    assert 19 < told[0] < 22
    admin.alter_client_quota(QuotaEntity(client_id="greedy"), {"producer_byte_rate": None})
