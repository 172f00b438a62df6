"""`tidelog format --add-scram`: what is written, and what is said to a mistake."""

from __future__ import annotations

import base64
from pathlib import Path
from random import Random

import pytest

from tests.support.command_line import tidelog
from tidelog.cli.node.first_users import first_users
from tidelog.controller.snapshot_file import read_snapshot
from tidelog.model.config import ConfigError
from tidelog.security.sasl.scram_credential import ScramMechanism, credential_of, derive_credential
from tidelog.storage.os_files import OsFiles
from tidelog.wire.messages.internal.cluster_security import UserScramCredentialRecord

NEWEST = 30


def user(argument: str) -> UserScramCredentialRecord:
    (framed,) = first_users([argument], NEWEST, Random(1))
    assert isinstance(framed.message, UserScramCredentialRecord)
    return framed.message


def test_a_password_gets_a_salt_of_its_own() -> None:
    record = user("SCRAM-SHA-256=[name=alice,password=alice-secret]")

    credential = derive_credential(ScramMechanism.SCRAM_SHA_256, "alice-secret", record.salt, 4096)
    assert (record.name, record.mechanism, record.iterations) == ("alice", 1, 4096)
    assert (record.stored_key, record.server_key) == (credential.stored_key, credential.server_key)


def test_a_salted_password_is_taken_with_its_salt_and_quotes() -> None:
    salted = base64.b64encode(b"y" * 64).decode()

    record = user(f' SCRAM-SHA-512=[name="al=ice",iterations=8192,salt="N3E=",saltedpassword="{salted}",] ')

    credential = credential_of(ScramMechanism.SCRAM_SHA_512, b"7q", b"y" * 64, 8192)
    assert (record.name, record.mechanism, record.iterations, record.salt) == ("al=ice", 2, 8192, b"7q")
    assert record.stored_key == credential.stored_key


@pytest.mark.parametrize(
    ("argument", "sentence"),
    [
        ("SCRAM-SHA-256", "Failed to find equals sign in SCRAM argument"),
        ("SCRAM-SHA-1=[name=a,password=hush]", "The add-scram mechanism SCRAM-SHA-1 is not supported."),
        ("SCRAM-SHA-256=name=a,password=hush]", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a,password=hush", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[]", "No equals sign found in a SCRAM component"),
        ("SCRAM-SHA-256=[name=a,password=hu,sh]", "No equals sign found in a SCRAM component"),
        ("SCRAM-SHA-256=[password=hush]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,password=]", "The 'password' of add-scram is empty"),
        ("SCRAM-SHA-256=[name=a,saltedpassword=aHVzaA==]", "You must supply 'salt' with 'saltedpassword' to add-scram"),
        ("SCRAM-SHA-256=[name=a,salt=*,password=hush]", "Failed to decode given salt: it is not base64"),
        ("SCRAM-SHA-256=[name=a,salt=N3E=,saltedpassword=hush!]", "Failed to decode given saltedPassword"),
        ("SCRAM-SHA-256=[name=a,password=hush,iterations=many]", "Failed to parse iterations count: many"),
        (
            "SCRAM-SHA-256=[name=a,password=hush,iterations=4095]",
            "The 'iterations' value must be >= 4096 for add-scram using SCRAM_SHA_256",
        ),
        (
            "SCRAM-SHA-512=[name=a,password=hush,iterations=16385]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM_SHA_512",
        ),
        ("SCRAM-SHA-256=[name=a,password=hush,nickname=b]", "Unknown SCRAM configurations: nickname"),
    ],
)
def test_a_mistake_is_told_without_the_password(argument: str, sentence: str) -> None:
    with pytest.raises(ConfigError) as told:
        user(argument)

    assert str(told.value).startswith(sentence)
    assert "hush" not in str(told.value)


def test_an_old_level_has_no_users() -> None:
    with pytest.raises(ConfigError, match=r"SCRAM is only supported in metadata.version 3.5-IV2 or later."):
        first_users(["SCRAM-SHA-256=[name=a,password=hush]"], 10, Random(1))


def test_the_users_are_in_every_directory_that_is_formatted(tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text(
        "node.id=4\nlisteners=PLAINTEXT://:9092,CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={tmp_path}/a,{tmp_path}/b\n"
    )

    users = ["-S", "SCRAM-SHA-256=[name=alice,password=hush]", "--add-scram", "SCRAM-SHA-512=[name=bob,password=hush]"]
    result = tidelog("format", "--config", properties, *users)

    assert result.exit_code == 0, result.output
    for name in "ab":
        framed = read_snapshot(OsFiles(), str(tmp_path / name / "bootstrap.checkpoint")).records
        found = [each.message for each in framed if isinstance(each.message, UserScramCredentialRecord)]
        assert [(each.name, each.mechanism) for each in found] == [("alice", 1), ("bob", 2)]
