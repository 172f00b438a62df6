"""Decisions about users' passwords: Kafka's codes and texts, and what is written."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.broker.admin_node import features, image_of
from tidelog.controller.decision import Refusal, RefusedError
from tidelog.controller.image import ClusterImage
from tidelog.controller.requests import refusal_of
from tidelog.controller.scram_credentials import SALT_BYTES_MAX, decide_alter_scram_credentials
from tidelog.model.errors import ErrorCode
from tidelog.security.sasl.scram_credential import ScramMechanism, credential_of
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord
from tidelog.wire.messages.internal.cluster_security import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from tidelog.wire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

SHA_256, SHA_512 = ScramMechanism


def stored(name: str, mechanism: int = SHA_256) -> UserScramCredentialRecord:
    return UserScramCredentialRecord(
        name=name, mechanism=mechanism, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )


def deletion(name: str, mechanism: int = SHA_256) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def upsertion(name: str, mechanism: int = SHA_256, **changes: Any) -> ScramCredentialUpsertion:
    facts: dict[str, Any] = {"iterations": 4096, "salt": b"salt", "salted_password": b"x" * 32, **changes}
    return ScramCredentialUpsertion(name=name, mechanism=mechanism, **facts)


def request(*changes: ScramCredentialDeletion | ScramCredentialUpsertion) -> AlterUserScramCredentialsRequest:
    return AlterUserScramCredentialsRequest(
        deletions=[each for each in changes if isinstance(each, ScramCredentialDeletion)],
        upsertions=[each for each in changes if isinstance(each, ScramCredentialUpsertion)],
    )


def results(answer: AlterUserScramCredentialsResponse) -> list[tuple[str, int, str | None]]:
    return [(each.user, each.error_code, each.error_message) for each in answer.results]


@pytest.fixture
def image() -> ClusterImage:
    return image_of(*features(), stored("alice"), stored("alice", SHA_512))


def test_what_is_kept_is_derived_from_the_salted_password(image: ClusterImage) -> None:
    decision = decide_alter_scram_credentials(image, request(upsertion("bob", SHA_512, salted_password=b"y" * 64)))

    credential = credential_of(SHA_512, b"salt", b"y" * 64, 4096)
    assert [framed.message for framed in decision.records] == [
        UserScramCredentialRecord(
            name="bob",
            mechanism=2,
            salt=b"salt",
            stored_key=credential.stored_key,
            server_key=credential.server_key,
            iterations=4096,
        )
    ]
    assert results(decision.answer) == [("bob", 0, None)]


def test_a_deletion_names_the_mechanism(image: ClusterImage) -> None:
    decision = decide_alter_scram_credentials(image, request(deletion("alice", SHA_512)))

    assert [framed.message for framed in decision.records] == [
        RemoveUserScramCredentialRecord(name="alice", mechanism=2)
    ]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (upsertion("u", iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"),
        (upsertion("u", iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"),
        (upsertion("", iterations=1), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (upsertion("u", 3), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (upsertion("u", salted_password=b""), ErrorCode.UNKNOWN_SERVER_ERROR, None),
        (
            upsertion("u", salt=b"s" * (SALT_BYTES_MAX + 1)),
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            "The salt is longer than 1024 bytes",
        ),
        (deletion(""), ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"),
        (deletion("alice", 0), ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        (deletion("bob"), ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist"),
    ],
)
def test_a_change_that_cannot_be_made_leaves_the_others_alone(
    image: ClusterImage,
    change: ScramCredentialDeletion | ScramCredentialUpsertion,
    error: ErrorCode,
    message: str | None,
) -> None:
    decision = decide_alter_scram_credentials(image, request(change, upsertion("other")))

    assert results(decision.answer) == [("other", 0, None), (change.name, error, message)]
    assert len(decision.records) == 1


@pytest.mark.parametrize(
    "changes",
    [
        (upsertion("alice"), upsertion("alice")),
        (upsertion("alice"), upsertion("alice", SHA_512), upsertion("alice")),
        (deletion("alice"), upsertion("alice", SHA_512)),
        (deletion("alice"), deletion("alice", SHA_512)),
    ],
)
def test_a_user_is_changed_once_in_a_request(
    image: ClusterImage, changes: tuple[ScramCredentialDeletion | ScramCredentialUpsertion, ...]
) -> None:
    decision = decide_alter_scram_credentials(image, request(*changes))

    text = "A user credential cannot be altered twice in the same request"
    assert results(decision.answer) == [("alice", ErrorCode.DUPLICATE_RESOURCE, text)]
    assert decision.records == ()


def test_an_old_metadata_version_has_no_record_for_it() -> None:
    image = image_of(FeatureLevelRecord(name="metadata.version", feature_level=7))

    decision = decide_alter_scram_credentials(image, request(deletion("alice"), upsertion("bob")))

    text = "The current metadata.version does not support SCRAM"
    assert results(decision.answer) == [
        ("alice", ErrorCode.UNSUPPORTED_VERSION, text),
        ("bob", ErrorCode.UNSUPPORTED_VERSION, text),
    ]
    assert decision.records == ()


def test_a_request_has_no_more_users_than_a_batch_has_records(image: ClusterImage) -> None:
    many = request(*(upsertion(f"user-{number}", 9) for number in range(10_001)))

    with pytest.raises(RefusedError, match="More than 10000 users"):
        decide_alter_scram_credentials(image, many)


def test_a_refusal_names_each_user_once_in_order() -> None:
    refused = refusal_of(request(deletion("b"), upsertion("a"), upsertion("b")), ErrorCode.NOT_CONTROLLER)

    assert isinstance(refused, AlterUserScramCredentialsResponse)
    message = Refusal.of(ErrorCode.NOT_CONTROLLER).message
    assert results(refused) == [("a", 41, message), ("b", 41, message)]
