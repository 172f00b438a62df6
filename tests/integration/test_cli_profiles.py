"""`tidelog profile`, and which commands talk to the cluster of a profile."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from tests.support.command_line import tidelog
from tidelog.testing import EmbeddedCluster

NOWHERE = "127.0.0.1:1"
LOGIN = (
    "security.protocol=SASL_PLAINTEXT",
    "sasl.mechanism=PLAIN",
    'sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="alice" password="s3cret";',
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster() as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("TIDELOG_BOOTSTRAP", "TIDELOG_COMMAND_CONFIG", "TIDELOG_PROFILE"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return tmp_path / "tidelog"


def refused(result: Result, code: int) -> str:
    assert (result.exit_code, result.stdout) == (code, "")
    assert result.stderr.count("\n") == 1
    return result.stderr.strip()


def create(name: str, bootstrap: str, *pairs: str) -> None:
    result = tidelog(
        "profile", "create", name, "--bootstrap", bootstrap, *[word for each in pairs for word in ("-X", each)]
    )
    assert (result.exit_code, result.stderr) == (0, "")


def asked(*arguments: str) -> str:
    result = tidelog("cluster", "describe", "--json", *arguments)
    assert result.exit_code == 0, result.stderr
    return str(json.loads(result.stdout)["cluster"])


def test_commands_talk_to_the_profile_in_use_unless_told_otherwise(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create("here", cluster.bootstrap_servers)
    create("away", NOWHERE, "client.id=me")
    assert tidelog("profile", "use", "here").exit_code == 0

    assert asked() == cluster.cluster_id
    assert NOWHERE in refused(tidelog("cluster", "describe", "--bootstrap", NOWHERE), 1)
    monkeypatch.setenv("TIDELOG_PROFILE", "away")
    assert NOWHERE in refused(tidelog("cluster", "describe"), 1)
    assert asked("--bootstrap", cluster.bootstrap_servers) == cluster.cluster_id
    assert asked("-X", f"bootstrap.servers={cluster.bootstrap_servers}") == cluster.cluster_id
    monkeypatch.setenv("TIDELOG_PROFILE", "heer")
    assert refused(tidelog("cluster", "describe"), 2) == "tidelog cluster: there is no profile heer; did you mean here?"
    monkeypatch.setenv("TIDELOG_BOOTSTRAP", cluster.bootstrap_servers)
    assert asked() == cluster.cluster_id


def test_a_login_goes_to_no_cluster_that_is_named_otherwise(
    cluster: EmbeddedCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create("secured", cluster.bootstrap_servers, *LOGIN)
    assert tidelog("profile", "use", "secured").exit_code == 0
    file = tmp_path / "client.properties"
    file.write_text(f"bootstrap.servers={cluster.bootstrap_servers}\n")

    assert cluster.bootstrap_servers in refused(tidelog("cluster", "describe"), 1), "the node speaks no SASL"
    assert asked("--bootstrap", cluster.bootstrap_servers) == cluster.cluster_id
    assert asked("--command-config", str(file)) == cluster.cluster_id
    monkeypatch.setenv("TIDELOG_PROFILE", "")
    assert "127.0.0.1:9092" in tidelog("profile", "create", "usual").stdout


def test_a_profile_is_for_its_owner_alone_and_shows_no_secret(home: Path) -> None:
    mask = os.umask(0)
    try:
        create("x", "a:1", *LOGIN)
    finally:
        os.umask(mask)

    file = home / "profiles" / "x.properties"
    assert "s3cret" in file.read_text()
    assert [stat.S_IMODE(each.stat().st_mode) for each in (home, file.parent, file)] == [0o700, 0o700, 0o600]
    for arguments in (["show", "x"], ["show", "x", "--json"], ["list"], ["list", "--json"]):
        shown = tidelog("profile", *arguments)
        assert shown.exit_code == 0
        assert "s3cret" not in shown.stdout
    assert tidelog("profile", "show", "x").stdout.splitlines()[1:] == [
        "bootstrap.servers=a:1",
        "sasl.jaas.config=(hidden)",
        "sasl.mechanism=PLAIN",
        "security.protocol=SASL_PLAINTEXT",
    ]


def test_files_of_a_profile_are_found_from_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    create("tls", "a:1", "security.protocol=SSL", "ssl.truststore.location=ca.pem")

    assert f"ssl.truststore.location={tmp_path}/ca.pem" in tidelog("profile", "show", "tls").stdout.splitlines()


def test_profiles_are_listed_written_over_and_deleted(home: Path) -> None:
    assert tidelog("profile", "list").stdout.startswith("there are no profiles")
    create("one", "a:1")
    create("two", "b:2")
    tidelog("profile", "use", "two")

    assert refused(tidelog("profile", "create", "one"), 1).endswith("--force writes over it")
    assert tidelog("profile", "create", "one", "--force", "--bootstrap", "c:3").exit_code == 0
    rows = [line.split() for line in tidelog("profile", "list").stdout.splitlines()[1:]]
    assert rows == [["one", "no", "c:3", "PLAINTEXT"], ["two", "yes", "b:2", "PLAINTEXT"]]
    assert tidelog("profile", "delete", "two").exit_code == 0
    assert "no profile is in use" in refused(tidelog("profile", "show"), 1)
    assert sorted(each.name for each in home.rglob("*")) == ["one.properties", "profiles"]


@pytest.mark.parametrize("name", ["", "../x", ".x", "a/b", "a b", "x" * 65, "é"])
def test_what_is_no_name_is_refused(name: str) -> None:
    assert "is no name of a profile" in refused(tidelog("profile", "create", name), 2)
    assert "there is no profile" in refused(tidelog("profile", "use", name), 1)
    assert "there is no profile" in refused(tidelog("profile", "delete", name), 1)
