"""Decisions about delegation tokens: CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, and the sweep of those
that have expired (KIP-48). The rules and codes are Kafka's.

Whoever passes a request on has asked whether its connection and its caller may have it; here it is asked whose the token is.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from random import Random

from msgspec.structs import replace

from tidelog.controller.decision import Decision, Refusal
from tidelog.controller.image import ClusterImage, DelegationToken
from tidelog.controller.settings import ControllerSettings
from tidelog.model.config import LONG_MAX
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import random_uuid, uuid_to_text
from tidelog.model.principal import ANONYMOUS
from tidelog.security.delegation_tokens import TokenSecret, is_expired
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from tidelog.wire.messages.internal.cluster_security import DelegationTokenRecord, RemoveDelegationTokenRecord

USER = "User"

# As in Kafka: what has gathered while nobody swept goes in steps.
REMOVALS_MAX = 1_000
# Kafka has no limit. Every node keeps every token in memory.
RENEWERS_MAX = 1_000

_NO_TIME = -1
_REQUESTER_SINCE = 3


def token_owner(request: CreateDelegationTokenRequest, requester: str) -> str:
    """Whose a new token is to be, as `Type:name`: the requester's, where no other owner is named."""
    if not request.owner_principal_name:
        return requester
    return f"{request.owner_principal_type or ''}:{request.owner_principal_name}"


def decide_create_token(
    image: ClusterImage,
    request: CreateDelegationTokenRequest,
    settings: ControllerSettings,
    *,
    requester: str,
    now_ms: int,
    random: Random,
) -> Decision[CreateDelegationTokenResponse]:
    owner = token_owner(request, requester)
    answer = _created(owner, requester, ErrorCode.NONE, time_ms=0)
    found = _secret(image, settings)
    if isinstance(found, ErrorCode):
        return Decision(_with_error(answer, found))
    if any(renewer.principal_type != USER for renewer in request.renewers):
        return Decision(_with_error(answer, ErrorCode.INVALID_PRINCIPAL_TYPE))
    if len(request.renewers) > RENEWERS_MAX:
        return Decision(_with_error(answer, ErrorCode.INVALID_REQUEST))
    lifetime_ms = settings.delegation_token_max_lifetime_ms
    if request.max_lifetime_ms > 0:
        lifetime_ms = min(lifetime_ms, request.max_lifetime_ms)
    max_ms = _later(now_ms, lifetime_ms)
    token_id = uuid_to_text(random_uuid(random))
    token = DelegationToken(
        owner=owner,
        requester=requester,
        renewers=tuple(f"{each.principal_type}:{each.principal_name}" for each in request.renewers),
        issue_timestamp_ms=now_ms,
        max_timestamp_ms=max_ms,
        expiration_timestamp_ms=min(max_ms, _later(now_ms, settings.delegation_token_expiry_time_ms)),
    )
    answer.issue_timestamp_ms = token.issue_timestamp_ms
    answer.expiry_timestamp_ms = token.expiration_timestamp_ms
    answer.max_timestamp_ms = token.max_timestamp_ms
    answer.token_id = token_id
    answer.hmac = found.hmac_of(token_id)
    return Decision(answer, (FramedRecord(_record(token_id, token), 0),))


def decide_renew_token(
    image: ClusterImage,
    request: RenewDelegationTokenRequest,
    settings: ControllerSettings,
    *,
    requester: str,
    now_ms: int,
) -> Decision[RenewDelegationTokenResponse]:
    found = _find(image, settings, request.hmac)
    if isinstance(found, ErrorCode):
        return Decision(_renewed(found))
    token_id, token = found
    if is_expired(token, now_ms):
        return Decision(_renewed(ErrorCode.DELEGATION_TOKEN_EXPIRED))
    if not _may_renew(token, requester):
        return Decision(_renewed(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    period_ms = settings.delegation_token_expiry_time_ms
    if request.renew_period_ms > 0:
        period_ms = min(period_ms, request.renew_period_ms)
    expiry_ms = min(token.max_timestamp_ms, _later(now_ms, period_ms))
    renewed = replace(token, expiration_timestamp_ms=expiry_ms)
    return Decision(_renewed(ErrorCode.NONE, expiry_ms), (FramedRecord(_record(token_id, renewed), 0),))


def decide_expire_token(
    image: ClusterImage,
    request: ExpireDelegationTokenRequest,
    settings: ControllerSettings,
    *,
    requester: str,
    now_ms: int,
) -> Decision[ExpireDelegationTokenResponse]:
    found = _find(image, settings, request.hmac)
    if isinstance(found, ErrorCode):
        return Decision(_expired(found))
    token_id, token = found
    if not _may_renew(token, requester):
        return Decision(_expired(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH))
    if request.expiry_time_period_ms < 0:
        # At once, and also where it has expired already.
        removal = FramedRecord(RemoveDelegationTokenRecord(token_id=token_id), 0)
        return Decision(_expired(ErrorCode.NONE, now_ms), (removal,))
    if is_expired(token, now_ms):
        return Decision(_expired(ErrorCode.DELEGATION_TOKEN_EXPIRED))
    expiry_ms = min(token.max_timestamp_ms, _later(now_ms, request.expiry_time_period_ms))
    shortened = replace(token, expiration_timestamp_ms=expiry_ms)
    return Decision(_expired(ErrorCode.NONE, expiry_ms), (FramedRecord(_record(token_id, shortened), 0),))


def expired_token_records(image: ClusterImage, now_ms: int) -> tuple[FramedRecord, ...]:
    """The removal of tokens that have expired, of the first so many of them."""
    return tuple(islice(_removals(image, now_ms), REMOVALS_MAX))


def _removals(image: ClusterImage, now_ms: int) -> Iterator[FramedRecord]:
    for token_id, token in image.delegation_tokens.items():
        if is_expired(token, now_ms):
            yield FramedRecord(RemoveDelegationTokenRecord(token_id=token_id), 0)


# What is answered


def refused_creation(owner: str, requester: str, error: ErrorCode) -> CreateDelegationTokenResponse:
    """What CreateDelegationToken is answered where no controller has decided it."""
    return _created(owner, requester, error, time_ms=_NO_TIME)


def refuse_create_token(_request: CreateDelegationTokenRequest, refusal: Refusal) -> CreateDelegationTokenResponse:
    return refused_creation(str(ANONYMOUS), str(ANONYMOUS), refusal.error)


def cut_create_token(answer: CreateDelegationTokenResponse, version: int) -> None:
    if version < _REQUESTER_SINCE:
        answer.token_requester_principal_type = answer.token_requester_principal_name = ""


def refuse_renew_token(_request: RenewDelegationTokenRequest, refusal: Refusal) -> RenewDelegationTokenResponse:
    return _renewed(refusal.error)


def refuse_expire_token(_request: ExpireDelegationTokenRequest, refusal: Refusal) -> ExpireDelegationTokenResponse:
    return _expired(refusal.error)


def _created(owner: str, requester: str, error: ErrorCode, *, time_ms: int) -> CreateDelegationTokenResponse:
    owner_type, _, owner_name = owner.partition(":")
    requester_type, _, requester_name = requester.partition(":")
    return CreateDelegationTokenResponse(
        error_code=error,
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
        token_id="",
        hmac=b"",
        throttle_time_ms=0,
    )


def _with_error(answer: CreateDelegationTokenResponse, error: ErrorCode) -> CreateDelegationTokenResponse:
    answer.error_code = error
    return answer


def _renewed(error: ErrorCode, expiry_ms: int = 0) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expiry_ms, throttle_time_ms=0)


def _expired(error: ErrorCode, expiry_ms: int = 0) -> ExpireDelegationTokenResponse:
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expiry_ms, throttle_time_ms=0)


# What is decided by


def _secret(image: ClusterImage, settings: ControllerSettings) -> TokenSecret | ErrorCode:
    if settings.token_secret is None:
        return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    if not image.metadata_version.has_delegation_tokens:
        return ErrorCode.UNSUPPORTED_VERSION
    return settings.token_secret


def _find(image: ClusterImage, settings: ControllerSettings, hmac: bytes) -> tuple[str, DelegationToken] | ErrorCode:
    secret = _secret(image, settings)
    if isinstance(secret, ErrorCode):
        return secret
    token_id = secret.token_of(hmac, image.delegation_tokens)
    if token_id is None:
        return ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    return token_id, image.delegation_tokens[token_id]


def _may_renew(token: DelegationToken, requester: str) -> bool:
    return requester == token.owner or requester in token.renewers


def _record(token_id: str, token: DelegationToken) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        expiration_timestamp=token.expiration_timestamp_ms,
        token_id=token_id,
    )


def _later(now_ms: int, duration_ms: int) -> int:
    return min(LONG_MAX, now_ms + duration_ms)
