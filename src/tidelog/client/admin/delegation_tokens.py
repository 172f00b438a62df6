"""Delegation tokens: new ones, longer and shorter lives, and which there are (KIP-48)."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field

from tidelog.client.admin.outcomes import error_of, value_of
from tidelog.client.admin.requests import ANYONE, CONTROLLER, Requests
from tidelog.client.errors import ConfigError, UnsupportedError
from tidelog.client.given_names import names_of
from tidelog.wire.messages.delegation_tokens import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

_OWNER_SINCE = 3


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A token. Principals are texts as `User:alice`; `hmac` is its secret."""

    token_id: str
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    """Empty where the cluster is too old to tell."""
    renewers: tuple[str, ...]
    issue_timestamp_ms: int
    expiry_timestamp_ms: int
    max_timestamp_ms: int

    @property
    def password(self) -> str:
        """What a client logs in with by SCRAM, under `token_id` as its user name."""
        return base64.b64encode(self.hmac).decode()


class DelegationTokenCalls:
    """What an admin does with tokens. A cluster refuses all of it over connections that do not tell who the caller is."""

    _requests: Requests

    async def create_delegation_token(
        self, *, renewers: Iterable[str] = (), owner: str | None = None, max_lifetime_ms: int = -1
    ) -> DelegationToken:
        """A token of the caller, or of another user; others may renew it. A negative lifetime is the cluster's longest.

        >>> token = await admin.create_delegation_token(renewers=["User:scheduler"])
        """
        named = names_of(renewers, "renewers")
        owner_type, owner_name = ("", "") if owner is None else _principal(owner)

        def request(version: int) -> CreateDelegationTokenRequest:
            if owner is not None and version < _OWNER_SINCE:
                raise UnsupportedError("the cluster is too old for tokens on behalf of others")
            return CreateDelegationTokenRequest(
                owner_principal_type=owner_type,
                owner_principal_name=owner_name,
                renewers=[
                    CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in map(_principal, named)
                ],
                max_lifetime_ms=max_lifetime_ms,
            )

        answer = await self._requests.ask(
            CONTROLLER,
            request,
            CreateDelegationTokenResponse,
            codes=lambda each: [each.error_code],
            is_repeatable=False,
        )
        value_of(error_of(answer.error_code))
        requester = (answer.token_requester_principal_type, answer.token_requester_principal_name)
        return DelegationToken(
            token_id=answer.token_id,
            hmac=answer.hmac,
            owner=f"{answer.principal_type}:{answer.principal_name}",
            requester=":".join(requester) if requester[0] else "",
            renewers=tuple(named),
            issue_timestamp_ms=answer.issue_timestamp_ms,
            expiry_timestamp_ms=answer.expiry_timestamp_ms,
            max_timestamp_ms=answer.max_timestamp_ms,
        )

    async def renew_delegation_token(self, hmac: bytes, *, renew_period_ms: int = -1) -> int:
        """Let a token live longer, by the cluster's usual time or by less. When it now expires.

        >>> await admin.renew_delegation_token(token.hmac)
        """
        answer = await self._requests.ask(
            CONTROLLER,
            RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=renew_period_ms),
            RenewDelegationTokenResponse,
            codes=lambda each: [each.error_code],
        )
        value_of(error_of(answer.error_code))
        return answer.expiry_timestamp_ms

    async def expire_delegation_token(self, hmac: bytes, *, expiry_time_period_ms: int = -1) -> int:
        """Let a token end after some time; at once where that is negative. When it ends.

        >>> await admin.expire_delegation_token(token.hmac)
        """
        answer = await self._requests.ask(
            CONTROLLER,
            ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=expiry_time_period_ms),
            ExpireDelegationTokenResponse,
            codes=lambda each: [each.error_code],
            # What is gone cannot be removed again.
            is_repeatable=expiry_time_period_ms >= 0,
        )
        value_of(error_of(answer.error_code))
        return answer.expiry_timestamp_ms

    async def describe_delegation_token(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """The tokens that the caller may see: all of them, or those that some users own or may renew.

        >>> [token.token_id for token in await admin.describe_delegation_token()]
        """
        named = None if owners is None else names_of(owners, "owners")
        answer = await self._requests.ask(
            ANYONE,
            DescribeDelegationTokenRequest(
                owners=None
                if named is None
                else [
                    DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                    for kind, name in map(_principal, named)
                ]
            ),
            DescribeDelegationTokenResponse,
            codes=lambda each: [each.error_code],
        )
        value_of(error_of(answer.error_code))
        return [
            DelegationToken(
                token_id=each.token_id,
                hmac=each.hmac,
                owner=f"{each.principal_type}:{each.principal_name}",
                requester=f"{each.token_requester_principal_type}:{each.token_requester_principal_name}"
                if each.token_requester_principal_type
                else "",
                renewers=tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in each.renewers),
                issue_timestamp_ms=each.issue_timestamp,
                expiry_timestamp_ms=each.expiry_timestamp,
                max_timestamp_ms=each.max_timestamp,
            )
            for each in answer.tokens
        ]


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ConfigError(f"{text} is no principal: expected a type and a name, as in User:alice")
    return kind, name
