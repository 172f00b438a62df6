"""Decisions about delegation tokens: Kafka's rules about times and about who may do what."""

from __future__ import annotations

from random import Random

import pytest

from tests.support.metadata_node import MetadataNode
from tests.unit.broker.admin_node import features, image_of
from tidelog.controller.delegation_tokens import (
    RENEWERS_MAX,
    decide_create_token,
    decide_expire_token,
    decide_renew_token,
    expired_token_records,
)
from tidelog.controller.image import ClusterImage
from tidelog.controller.settings import ControllerSettings
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NodeId
from tidelog.security.delegation_tokens import TokenSecret
from tidelog.wire.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tidelog.wire.messages.internal.cluster_metadata import FeatureLevelRecord
from tidelog.wire.messages.internal.cluster_security import DelegationTokenRecord, RemoveDelegationTokenRecord

NOW = 1_700_000_000_000
SECRET = TokenSecret("secret")
SETTINGS = ControllerSettings(
    NodeId(1),
    "cluster",
    token_secret=SECRET,
    delegation_token_max_lifetime_ms=1_000,
    delegation_token_expiry_time_ms=300,
)
WITHOUT = ControllerSettings(NodeId(1), "cluster")
OLD = image_of(FeatureLevelRecord(name="metadata.version", feature_level=7))


def token(token_id: str = "one", *, expiry: int = NOW + 100, latest: int = NOW + 1_000) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner="User:alice",
        requester="User:carol",
        renewers=["User:bob"],
        issue_timestamp=NOW - 1,
        max_timestamp=latest,
        expiration_timestamp=expiry,
        token_id=token_id,
    )


def image(*tokens: DelegationTokenRecord) -> ClusterImage:
    return image_of(*features(), *tokens)


def created(
    request: CreateDelegationTokenRequest,
    settings: ControllerSettings = SETTINGS,
    at: ClusterImage | None = None,
    requester: str = "User:alice",
) -> tuple[CreateDelegationTokenResponse, list[DelegationTokenRecord]]:
    decision = decide_create_token(at or image(), request, settings, requester=requester, now_ms=NOW, random=Random(1))
    records = [framed.message for framed in decision.records]
    assert all(isinstance(record, DelegationTokenRecord) for record in records)
    return decision.answer, records  # type: ignore[return-value]


def asking(max_lifetime_ms: int = -1, *renewers: str, owner: str | None = None) -> CreateDelegationTokenRequest:
    return CreateDelegationTokenRequest(
        owner_principal_type=None if owner is None else "User",
        owner_principal_name=owner,
        renewers=[
            CreatableRenewers(principal_type=kind, principal_name=name)
            for kind, _, name in (each.partition(":") for each in renewers)
        ],
        max_lifetime_ms=max_lifetime_ms,
    )


def test_a_token_is_its_owners_and_lives_as_long_as_the_settings_say() -> None:
    answer, (record,) = created(asking(-1, "User:bob", "User:d:e"))

    assert (record.owner, record.requester, record.renewers) == ("User:alice", "User:alice", ["User:bob", "User:d:e"])
    assert (record.issue_timestamp, record.expiration_timestamp, record.max_timestamp) == (NOW, NOW + 300, NOW + 1000)
    assert (answer.error_code, answer.token_id) == (0, record.token_id)
    assert (answer.issue_timestamp_ms, answer.expiry_timestamp_ms, answer.max_timestamp_ms) == (
        NOW,
        NOW + 300,
        NOW + 1000,
    )
    assert answer.hmac == SECRET.hmac_of(record.token_id)
    assert (answer.principal_name, answer.token_requester_principal_name) == ("alice", "alice")


@pytest.mark.parametrize(
    ("asked", "expiry", "latest"),
    [(-1, 300, 1000), (0, 300, 1000), (500, 300, 500), (200, 200, 200), (5000, 300, 1000), (2**63 - 1, 300, 1000)],
)
def test_nobody_gets_more_than_the_longest_life(asked: int, expiry: int, latest: int) -> None:
    answer, _ = created(asking(asked))

    assert (answer.expiry_timestamp_ms, answer.max_timestamp_ms) == (NOW + expiry, NOW + latest)


def test_times_end_where_numbers_do() -> None:
    endless = ControllerSettings(
        NodeId(1),
        "cluster",
        token_secret=SECRET,
        delegation_token_max_lifetime_ms=2**63 - 1,
        delegation_token_expiry_time_ms=2**63 - 1,
    )

    answer, _ = created(asking(), endless)

    assert (answer.expiry_timestamp_ms, answer.max_timestamp_ms) == (2**63 - 1, 2**63 - 1)


def test_a_token_may_be_anothers() -> None:
    answer, (record,) = created(asking(owner="dave"), requester="User:carol")

    assert (record.owner, record.requester) == ("User:dave", "User:carol")
    assert (answer.principal_name, answer.token_requester_principal_name) == ("dave", "carol")


@pytest.mark.parametrize(
    ("request_", "settings", "at", "error"),
    [
        (asking(), WITHOUT, image(), ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        (asking(), SETTINGS, OLD, ErrorCode.UNSUPPORTED_VERSION),
        (asking(-1, "User:bob", "Group:all"), SETTINGS, image(), ErrorCode.INVALID_PRINCIPAL_TYPE),
        (asking(-1, *["User:bob"] * (RENEWERS_MAX + 1)), SETTINGS, image(), ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_creation_is_refused(
    request_: CreateDelegationTokenRequest, settings: ControllerSettings, at: ClusterImage, error: ErrorCode
) -> None:
    answer, records = created(request_, settings, at)

    assert (answer.error_code, answer.token_id, answer.hmac, answer.max_timestamp_ms) == (error, "", b"", 0)
    assert records == []


def renewed(
    period_ms: int = -1,
    *,
    token_id: str = "one",
    requester: str = "User:alice",
    settings: ControllerSettings = SETTINGS,
    at: ClusterImage | None = None,
) -> tuple[int, int, list[int]]:
    request = RenewDelegationTokenRequest(hmac=SECRET.hmac_of(token_id), renew_period_ms=period_ms)
    decision = decide_renew_token(at or image(token()), request, settings, requester=requester, now_ms=NOW)
    expiries = [
        framed.message.expiration_timestamp
        for framed in decision.records
        if isinstance(framed.message, DelegationTokenRecord)
    ]
    return decision.answer.error_code, decision.answer.expiry_timestamp_ms, expiries


@pytest.mark.parametrize(("period", "expiry"), [(-1, 300), (0, 300), (50, 50), (900, 300)])
def test_a_renewal_is_for_the_usual_time_or_less(period: int, expiry: int) -> None:
    assert renewed(period) == (0, NOW + expiry, [NOW + expiry])


def test_a_renewal_ends_where_the_token_does() -> None:
    assert renewed(at=image(token(latest=NOW + 40, expiry=NOW + 10))) == (0, NOW + 40, [NOW + 40])


def test_renewers_may_renew_and_expire_and_others_may_not() -> None:
    assert renewed(requester="User:bob")[0] == ErrorCode.NONE
    assert renewed(requester="User:carol") == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0, [])
    assert expired(-1, requester="User:bob")[0] == ErrorCode.NONE
    assert expired(-1, requester="User:carol") == (ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH, 0, [])


@pytest.mark.parametrize("past", [token(expiry=NOW - 1), token(latest=NOW - 1)])
def test_what_has_expired_cannot_be_renewed_or_shortened_but_removed(past: DelegationTokenRecord) -> None:
    at = image(past)

    # Kafka asks for the time first here: a stranger is told that it has expired.
    assert renewed(at=at, requester="User:carol") == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0, [])
    assert expired(10, at=at) == (ErrorCode.DELEGATION_TOKEN_EXPIRED, 0, [])
    assert expired(-1, at=at) == (0, NOW, [RemoveDelegationTokenRecord(token_id="one")])


def test_a_token_is_valid_up_to_its_last_millisecond() -> None:
    assert renewed(at=image(token(expiry=NOW)))[0] == ErrorCode.NONE
    assert expired_token_records(image(token(expiry=NOW)), NOW) == ()


def expired(
    period_ms: int,
    *,
    token_id: str = "one",
    requester: str = "User:alice",
    settings: ControllerSettings = SETTINGS,
    at: ClusterImage | None = None,
) -> tuple[int, int, list[object]]:
    request = ExpireDelegationTokenRequest(hmac=SECRET.hmac_of(token_id), expiry_time_period_ms=period_ms)
    decision = decide_expire_token(at or image(token()), request, settings, requester=requester, now_ms=NOW)
    return (
        decision.answer.error_code,
        decision.answer.expiry_timestamp_ms,
        [framed.message for framed in decision.records],
    )


@pytest.mark.parametrize(("period", "expiry"), [(0, 0), (50, 50), (5_000, 1_000), (2**63 - 1, 1_000)])
def test_an_end_can_be_moved_within_the_longest_life(period: int, expiry: int) -> None:
    assert expired(period) == (0, NOW + expiry, [token(expiry=NOW + expiry)])


@pytest.mark.parametrize(
    ("settings", "at", "error"),
    [
        (SETTINGS, image(), ErrorCode.DELEGATION_TOKEN_NOT_FOUND),
        (WITHOUT, image(token()), ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        (SETTINGS, OLD, ErrorCode.UNSUPPORTED_VERSION),
    ],
)
def test_renewals_and_ends_are_refused_alike(settings: ControllerSettings, at: ClusterImage, error: ErrorCode) -> None:
    assert renewed(settings=settings, at=at) == (error, 0, [])
    assert expired(-1, settings=settings, at=at) == (error, 0, [])


def test_a_sweep_removes_what_has_expired_a_thousand_at_a_time() -> None:
    many = image(token("stays"), *(token(f"token-{number}", expiry=NOW - 1) for number in range(1_200)))

    records = expired_token_records(many, NOW)

    assert len(records) == 1_000
    assert all(isinstance(framed.message, RemoveDelegationTokenRecord) for framed in records)


# With a controller


def test_the_active_controller_sweeps_at_every_interval() -> None:
    node = MetadataNode(
        config={
            "delegation.token.secret.key": "secret",
            "delegation.token.expiry.check.interval.ms": "500",
            "delegation.token.expiry.time.ms": "300",
        }
    )
    node.start()
    ended = node.ask(asking(), CreateDelegationTokenResponse)
    kept = node.ask(asking(), CreateDelegationTokenResponse)
    renewal = RenewDelegationTokenRequest(hmac=kept.hmac, renew_period_ms=-1)

    node.advance(250)
    assert node.ask(renewal, RenewDelegationTokenResponse).error_code == ErrorCode.NONE
    node.advance(240)
    before = set(node.image.delegation_tokens)
    node.advance(20)

    assert before == {ended.token_id, kept.token_id}
    assert set(node.image.delegation_tokens) == {kept.token_id}
    assert kept.principal_name == "ANONYMOUS"


def test_what_a_token_is_made_with_outlives_the_controller() -> None:
    node = MetadataNode(config={"delegation.token.secret.key": "secret"})
    node.start()
    made = node.ask(asking(), CreateDelegationTokenResponse)
    node.stop()

    node.start()
    gone = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)

    assert node.ask(gone, ExpireDelegationTokenResponse).error_code == ErrorCode.NONE
    assert not node.image.delegation_tokens
