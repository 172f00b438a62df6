"""Users' passwords for SCRAM over real sockets: our admin, `tidelog users`, confluent-kafka and kafka-python, on one cluster."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    ScramCredentialInfo as TheirInfo,
    ScramMechanism as TheirMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from typer.testing import CliRunner, Result

from tests.support.command_line import json_lines, tidelog
from tidelog import Admin
from tidelog.cli.commands import all_commands
from tidelog.client.admin import ScramCredentialInfo, ScramMechanism, UserScramDeletion, UserScramUpsertion
from tidelog.client.errors import ConfigError, RefusedError
from tidelog.model.errors import ErrorCode
from tidelog.testing import EmbeddedCluster

with warnings.catch_warnings():
    # It reads its schemas with a function of importlib that Python 3.11 and 3.12 call deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka import KafkaAdminClient, admin as kafka_python

Command = Callable[..., Result]

TIMEOUT_S = 10


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: EmbeddedCluster) -> Iterator[Admin]:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        yield admin


@pytest.fixture
def theirs(cluster: EmbeddedCluster) -> Any:
    return AdminClient({"bootstrap.servers": cluster.bootstrap_servers})


@pytest.fixture
def command(cluster: EmbeddedCluster) -> Command:
    """Run a command against the cluster, with a password on standard input where one is given."""

    def run(*arguments: str, password: str | None = None) -> Result:
        typed = [*map(str, arguments), "--bootstrap", cluster.bootstrap_servers]
        if password is None:
            return tidelog(*typed)
        return CliRunner().invoke(all_commands(), typed, input=password)

    return run


def test_our_admin_gives_tells_and_takes_passwords(admin: Admin) -> None:
    sha_256, sha_512 = ScramMechanism
    given = [UserScramUpsertion("alice", "one"), UserScramUpsertion("bob", "two", sha_512, 8192)]

    assert admin.alter_user_scram_credentials(given) == {"alice": None, "bob": None}

    described = admin.describe_user_scram_credentials(["alice", "bob", "nobody"])
    assert described["alice"] == (ScramCredentialInfo(sha_256, 4096),)
    assert described["bob"] == (ScramCredentialInfo(sha_512, 8192),)
    assert isinstance(described["nobody"], RefusedError)
    assert described["nobody"].code is ErrorCode.RESOURCE_NOT_FOUND
    removed = admin.alter_user_scram_credentials(
        [UserScramDeletion("bob", sha_512), UserScramDeletion("alice", sha_512)]
    )
    assert removed["bob"] is None
    assert isinstance(removed["alice"], RefusedError)
    assert removed["alice"].code is ErrorCode.RESOURCE_NOT_FOUND
    assert "bob" not in admin.describe_user_scram_credentials()


@pytest.mark.parametrize(
    "changes",
    [
        [UserScramUpsertion("alice", "one"), UserScramDeletion("alice", ScramMechanism.SCRAM_SHA_256)],
        [UserScramUpsertion("alice", "")],
        [UserScramUpsertion("alice", "one", iterations=20_000)],
    ],
)
def test_what_makes_no_sense_is_not_sent(admin: Admin, changes: list[Any]) -> None:
    with pytest.raises(ConfigError):
        admin.alter_user_scram_credentials(changes)


def test_a_password_is_in_no_repr() -> None:
    assert "hush" not in repr(UserScramUpsertion("alice", "hush", salt=b"hush"))


def test_confluent_kafka_alters_and_describes(theirs: Any, admin: Admin) -> None:
    info = TheirInfo(TheirMechanism.SCRAM_SHA_512, 10_000)

    altered = theirs.alter_user_scram_credentials([UserScramCredentialUpsertion("carol", info, b"secret")])
    altered["carol"].result(TIMEOUT_S)

    described = theirs.describe_user_scram_credentials(["carol"])["carol"].result(TIMEOUT_S)
    assert [(each.mechanism, each.iterations) for each in described.scram_credential_infos] == [
        (TheirMechanism.SCRAM_SHA_512, 10_000)
    ]
    assert admin.describe_user_scram_credentials(["carol"]) == {
        "carol": (ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 10_000),)
    }
    everybody = theirs.describe_user_scram_credentials().result(TIMEOUT_S)
    assert "carol" in everybody
    deleted = theirs.alter_user_scram_credentials([UserScramCredentialDeletion("carol", TheirMechanism.SCRAM_SHA_512)])
    deleted["carol"].result(TIMEOUT_S)
    with pytest.raises(KafkaException, match="Attempt to describe a user credential that does not exist: carol"):
        theirs.describe_user_scram_credentials(["carol"])["carol"].result(TIMEOUT_S)


def test_confluent_kafka_is_told_why_not(theirs: Any) -> None:
    few = TheirInfo(TheirMechanism.SCRAM_SHA_256, 100)

    altered = theirs.alter_user_scram_credentials([UserScramCredentialUpsertion("dave", few, b"secret")])

    with pytest.raises(KafkaException, match="Too few iterations"):
        altered["dave"].result(TIMEOUT_S)


@pytest.mark.filterwarnings("ignore:read_text is deprecated:DeprecationWarning")
def test_kafka_python_alters_and_describes(cluster: EmbeddedCluster) -> None:
    client = KafkaAdminClient(bootstrap_servers=cluster.bootstrap_servers)
    try:
        altered = client.alter_user_scram_credentials(
            [
                kafka_python.UserScramCredentialUpsertion(
                    "grace", kafka_python.ScramMechanism.SCRAM_SHA_256, "secret", 5000
                )
            ]
        )
        described = client.describe_user_scram_credentials(["grace"])
        removed = client.alter_user_scram_credentials(
            [kafka_python.UserScramCredentialDeletion("grace", kafka_python.ScramMechanism.SCRAM_SHA_256)]
        )
    finally:
        client.close()

    assert altered == removed == {"grace": None}
    assert [(each["mechanism"].value, each["iterations"]) for each in described["grace"]["credential_infos"]] == [
        (1, 5000)
    ]


def test_users_are_added_changed_listed_and_removed(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("from-a-file\n")

    added = command("users", "add", "erin", password="hush-hush\n")
    again = command("users", "add", "erin", password="hush-hush\n")
    other = command("users", "set", "erin", "--mechanism", "scram-sha-512", "--password-file", str(file))
    changed = command("users", "set", "erin", "--iterations", "5000", password="other\n")
    listed = command("users", "list", "erin", "--json")
    removed = command("users", "remove", "erin")
    gone = command("users", "list", "erin")

    assert added.stdout == "user erin has a new password for SCRAM-SHA-256\n", added.output
    assert again.exit_code == 1
    assert "user erin has a password for SCRAM-SHA-256" in again.stderr
    assert (other.exit_code, changed.exit_code, removed.exit_code) == (0, 0, 0), other.output
    assert json_lines(listed) == [
        {"user": "erin", "mechanism": "SCRAM-SHA-256", "iterations": 5000},
        {"user": "erin", "mechanism": "SCRAM-SHA-512", "iterations": 4096},
    ]
    assert gone.exit_code == 1
    assert "does not exist: erin" in gone.stderr
    assert not any("hush" in each.output for each in (added, again, other, changed))


@pytest.mark.parametrize(
    ("arguments", "password", "sentence"),
    [
        (["users", "set", "x", "--mechanism", "PLAIN"], "a\n", "'PLAIN' is no mechanism with passwords of its own"),
        (["users", "set", "x"], "\n", "the password is empty"),
        (["users", "set", "x"], "p" * 5000, "the password is longer than 4096 bytes"),
        (["users", "set", "x", "--password-file", "/no/such/file"], "", "/no/such/file cannot be read"),
        (["users", "set", "x", "--iterations", "20000"], "a\n", "20000 iterations are not 4096 to 16384"),
        (["users", "remove", "nobody"], "", "there is no user nobody"),
    ],
)
def test_a_mistake_is_one_sentence(command: Command, arguments: list[str], password: str, sentence: str) -> None:
    result = command(*arguments, password=password)

    assert result.exit_code in {1, 2}
    assert sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_users_outlive_a_restart_and_a_snapshot(tmp_path: Path) -> None:
    with EmbeddedCluster(directory=tmp_path) as first, Admin(bootstrap_servers=first.bootstrap_servers) as admin:
        admin.alter_user_scram_credentials([UserScramUpsertion("frank", "secret")])

    with EmbeddedCluster(directory=tmp_path) as second, Admin(bootstrap_servers=second.bootstrap_servers) as admin:
        assert list(admin.describe_user_scram_credentials()) == ["frank"]
