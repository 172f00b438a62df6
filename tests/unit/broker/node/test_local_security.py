"""What secures a local cluster: the words for it, what is made, and what is found again."""

from __future__ import annotations

import stat
from pathlib import Path
from random import Random

import pytest

from tidelog.broker.node.local_cluster import LocalNode, log_directory_of
from tidelog.broker.node.local_security import ADMIN, USER, LocalSecurity, SecurityMode, security_of
from tidelog.model.acl import AclOperation
from tidelog.model.clock import SystemClock
from tidelog.model.config import ConfigError
from tidelog.storage.os_files import OsFiles
from tidelog.storage.properties import parse_properties
from tidelog.wire.messages.internal.cluster_security import AccessControlEntryRecord, UserScramCredentialRecord


@pytest.fixture
def nodes(tmp_path: Path) -> list[LocalNode]:
    return [LocalNode(number, log_directory_of(str(tmp_path), number), 0, 9100 + number) for number in (1, 2)]


def opened(directory: Path, words: str, nodes: list[LocalNode]) -> LocalSecurity:
    mode = SecurityMode.parse(words)
    return LocalSecurity.open(OsFiles(), str(directory), mode, nodes, clock=SystemClock(), random=Random(1))


@pytest.mark.parametrize(
    ("words", "protocol", "knows_users"),
    [
        ("tls", "SSL", False),
        ("mtls", "SSL", True),
        ("plain", "SASL_PLAINTEXT", True),
        ("scram", "SASL_PLAINTEXT", True),
        ("tls+scram", "SASL_SSL", True),
        ("SCRAM-SHA-512+TLS", "SASL_SSL", True),
        ("tls+oauthbearer", "SASL_SSL", True),
    ],
)
def test_words_say_the_protocol_and_whether_rights_mean_something(words: str, protocol: str, knows_users: bool) -> None:
    mode = SecurityMode.parse(words)

    assert (mode.protocol, mode.knows_users) == (protocol, knows_users)
    assert SecurityMode.parse(str(mode)) == mode


@pytest.mark.parametrize("words", ["", "ssl", "tls+mtls", "plain+scram", "mtls+scram", "tls+tls", "tls+"])
def test_other_words_are_refused_with_what_they_could_be(words: str) -> None:
    with pytest.raises(ConfigError, match="it can be tls, mtls, plain"):
        SecurityMode.parse(words)


def test_what_was_made_is_found_again(tmp_path: Path, nodes: list[LocalNode]) -> None:
    first = opened(tmp_path, "tls+scram", nodes)
    second = opened(tmp_path, "tls+scram", nodes)

    assert (first.is_new, second.is_new) == (True, False)
    assert second.client_properties() == first.client_properties()
    assert security_of(OsFiles(), str(tmp_path)) == first.mode


def test_a_cluster_is_not_secured_in_another_way_later(tmp_path: Path, nodes: list[LocalNode]) -> None:
    opened(tmp_path, "tls+scram", nodes)

    with pytest.raises(ConfigError, match=r"secured with tls\+scram-sha-256, not with plain"):
        opened(tmp_path, "plain", nodes)


def test_a_state_that_cannot_be_read_is_told(tmp_path: Path, nodes: list[LocalNode]) -> None:
    opened(tmp_path, "plain", nodes)
    (tmp_path / "security" / "security.json").write_bytes(b"{")

    with pytest.raises(ConfigError, match=r"security\.json cannot be read"):
        opened(tmp_path, "plain", nodes)


def test_nobody_else_reads_keys_and_passwords(tmp_path: Path, nodes: list[LocalNode]) -> None:
    opened(tmp_path, "mtls", nodes)

    folder = tmp_path / "security"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}


def test_the_files_of_clients_say_what_they_are_given(tmp_path: Path, nodes: list[LocalNode]) -> None:
    security = opened(tmp_path, "tls+plain", nodes)

    folder = tmp_path / "security"
    assert parse_properties((folder / "client.properties").read_bytes()) == security.client_properties(USER)
    assert parse_properties((folder / "admin.properties").read_bytes()) == security.client_properties(ADMIN)
    librdkafka = parse_properties((folder / "client-librdkafka.properties").read_bytes())
    assert librdkafka == security.librdkafka_properties(USER)
    assert librdkafka["sasl.username"] == "alice"


def test_scram_users_and_their_rights_are_in_the_first_records(tmp_path: Path, nodes: list[LocalNode]) -> None:
    records = [each.message for each in opened(tmp_path, "scram", nodes).first_records(Random(2))]

    users = [each.name for each in records if isinstance(each, UserScramCredentialRecord)]
    rights = [each for each in records if isinstance(each, AccessControlEntryRecord)]
    assert users == ["admin", "alice", "node"]
    assert {each.principal for each in rights} == {"User:alice"}
    assert AclOperation.ALTER not in {each.operation for each in rights}


def test_a_cluster_that_knows_nobody_has_no_rights_to_give(tmp_path: Path, nodes: list[LocalNode]) -> None:
    security = opened(tmp_path, "tls", nodes)

    assert security.first_records(Random(2)) == ()
    assert "authorizer.class.name" not in security.node_properties(nodes[0], nodes)
