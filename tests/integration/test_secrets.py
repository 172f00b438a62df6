"""Secrets of a running node: in no answer, in no dump, in no file that others may read."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command_line import tidelog
from tidelog import Admin
from tidelog.client.admin import ResourceKind, UserScramUpsertion
from tidelog.testing import EmbeddedCluster

SECRETS = ("hush-static", "hush-found", "hush-dynamic")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a node that has been told some secrets, and has told them in DescribeConfigs or not."""
    directory = tmp_path_factory.mktemp("secrets")
    (directory / "found").write_text("hush-found")
    return directory


@pytest.fixture(scope="module")
def cluster(data: Path) -> Iterator[EmbeddedCluster]:
    config = {
        "config.providers": "dir",
        "config.providers.dir.class": "org.apache.kafka.common.config.provider.DirectoryConfigProvider",
        "config.providers.dir.param.allowed.paths": str(data),
        "delegation.token.secret.key": "hush-static",
        "remote.log.storage.manager.class.path": f"${{dir:{data}:found}}",
        "ssl.key.password": "hush-static",
    }
    with EmbeddedCluster(config=config, directory=data / "new" / "node") as cluster:
        with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
            admin.alter_user_scram_credentials([UserScramUpsertion("alice", "hush", salt=b"hush-dynamic")])
        yield cluster


def test_describe_configs_tells_no_secret(cluster: EmbeddedCluster) -> None:
    with Admin(bootstrap_servers=cluster.bootstrap_servers) as admin:
        entries = admin.describe_config(ResourceKind.BROKER, "1")

    assert {name: entry.value for name, entry in entries.items() if entry.is_sensitive} == dict.fromkeys(
        (name for name, entry in entries.items() if entry.is_sensitive)
    )
    assert entries["delegation.token.secret.key"].is_sensitive
    assert entries["remote.log.storage.manager.class.path"].is_sensitive
    assert not any(secret in repr(entries) for secret in SECRETS)


def test_what_is_new_is_for_the_nodes_user_alone(cluster: EmbeddedCluster, data: Path) -> None:
    made = data / "new" / "node"

    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in [made, *made.rglob("*")]}

    assert cluster.directory == str(made)
    assert {mode for path, mode in modes.items() if path.is_dir()} == {0o700}
    assert {mode for path, mode in modes.items() if path.is_file()} == {0o600}


def test_a_directory_that_was_there_stays_as_it_is(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o755)
    shared.chmod(0o755)

    with EmbeddedCluster(directory=shared):
        pass

    assert stat.S_IMODE(shared.stat().st_mode) == 0o755


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_dump_hides_keys_unless_asked(cluster: EmbeddedCluster, data: Path, form: tuple[str, ...]) -> None:
    log = data / "new" / "node" / "__cluster_metadata-0" / "00000000000000000000.log"
    assert cluster.cluster_id

    hidden = tidelog("dump-log", str(log), *form).stdout
    shown = tidelog("dump-log", str(log), "--show-secrets", *form).stdout

    assert "UserScramCredentialRecord" in hidden
    assert "alice" in hidden
    assert "[hidden]" in hidden
    assert not any(secret in hidden for secret in SECRETS)
    assert "hush-dynamic" in shown
    assert "[hidden]" not in shown
