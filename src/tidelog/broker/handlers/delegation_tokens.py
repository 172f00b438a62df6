"""CreateDelegationToken (38), v1-3; RenewDelegationToken (39), v1-2; ExpireDelegationToken (40), v1-2; DescribeDelegationToken
(41), v1-3: tokens that stand for a user for a while (KIP-48).

v3 of 38 names another owner than the caller, which needs the right to create tokens for that user; v3 of 38 and 41 tells who
asked for a token (KIP-373).

All four are refused over connections on which anybody could say to be anybody, and for callers that came with a token themselves:
a token must not beget others. No list of owners means all of them, an empty one none.
"""

from __future__ import annotations

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import Answer, handles
from tidelog.broker.requests.node_view import Node
from tidelog.controller.delegation_tokens import cut_create_token, refused_creation, token_owner
from tidelog.controller.image import DelegationToken
from tidelog.model.acl import AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.model.principal import ANONYMOUS
from tidelog.model.security_protocol import SecurityProtocol
from tidelog.wire.messages.delegation_tokens import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

_USER = "User"
_NO_TIME = -1
_REQUESTER_SINCE = 3


@handles(CreateDelegationTokenRequest, purpose="a token that stands for a user for a while (KIP-48)")
def create_delegation_token(
    request: CreateDelegationTokenRequest, caller: Caller, node: Node
) -> Answer[CreateDelegationTokenResponse]:
    requester = _principal_of(caller)
    owner = token_owner(request, requester)
    error = None
    if not is_allowed_here(caller, node):
        error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif owner != requester and not caller.may(AclOperation.CREATE_TOKENS, ResourceType.USER, owner):
        error = ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    elif any(renewer.principal_type != _USER for renewer in request.renewers):
        error = ErrorCode.INVALID_PRINCIPAL_TYPE
    if error is None:
        return node.forward(request, CreateDelegationTokenResponse, caller)
    refused = refused_creation(owner, requester, error)
    cut_create_token(refused, caller.api_version)
    return refused


@handles(RenewDelegationTokenRequest, purpose="let a token live longer (KIP-48)")
def renew_delegation_token(
    request: RenewDelegationTokenRequest, caller: Caller, node: Node
) -> Answer[RenewDelegationTokenResponse]:
    if is_allowed_here(caller, node):
        return node.forward(request, RenewDelegationTokenResponse, caller)
    error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=_NO_TIME, throttle_time_ms=0)


@handles(ExpireDelegationTokenRequest, purpose="let a token end earlier, or at once (KIP-48)")
def expire_delegation_token(
    request: ExpireDelegationTokenRequest, caller: Caller, node: Node
) -> Answer[ExpireDelegationTokenResponse]:
    if is_allowed_here(caller, node):
        return node.forward(request, ExpireDelegationTokenResponse, caller)
    error = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=_NO_TIME, throttle_time_ms=0)


@handles(
    DescribeDelegationTokenRequest, purpose="the tokens that the caller may see, with what they are used by (KIP-48)"
)
def describe_delegation_token(
    request: DescribeDelegationTokenRequest, caller: Caller, node: Node
) -> DescribeDelegationTokenResponse:
    secret = node.token_secret
    if not is_allowed_here(caller, node):
        return _described(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if secret is None:
        return _described(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = request.owners
    wanted = None if owners is None else {f"{each.principal_type}:{each.principal_name}" for each in owners}
    return _described(
        ErrorCode.NONE,
        [
            _token(token_id, token, secret.hmac_of(token_id), caller.api_version)
            for token_id, token in node.image.delegation_tokens.items()
            if (wanted is None or not wanted.isdisjoint((token.owner, *token.renewers)))
            and _may_see(token_id, token, caller)
        ],
    )


def is_allowed_here(caller: Caller, node: Node) -> bool:
    """Whether the caller's connection tells who it is, and it came with more than a token."""
    if caller.principal.token_authenticated:
        return False
    if caller.forwarded is not None:
        # The broker that it is connected to has looked at its connection; the one to the controller is the broker's own.
        return True
    protocol = node.security_protocol(caller.listener_name)
    if protocol is SecurityProtocol.SSL:
        # Without a certificate of the client's it is nobody.
        return caller.principal != ANONYMOUS
    return protocol is not SecurityProtocol.PLAINTEXT


def _principal_of(caller: Caller) -> str:
    return str(caller.principal)


def _may_see(token_id: str, token: DelegationToken, caller: Caller) -> bool:
    return (
        _principal_of(caller) in (token.owner, *token.renewers)
        or caller.may(AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token_id)
        or caller.may(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, token.owner)
    )


def _described(
    error: ErrorCode, tokens: list[DescribedDelegationToken] | None = None
) -> DescribeDelegationTokenResponse:
    return DescribeDelegationTokenResponse(error_code=error, tokens=tokens or [], throttle_time_ms=0)


def _token(token_id: str, token: DelegationToken, hmac: bytes, version: int) -> DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    told_requester = token.requester if version >= _REQUESTER_SINCE else ""
    requester_type, _, requester_name = told_requester.partition(":")
    renewers = [renewer.partition(":") for renewer in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        token_requester_principal_type=requester_type,
        token_requester_principal_name=requester_name,
        issue_timestamp=token.issue_timestamp_ms,
        expiry_timestamp=token.expiration_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        token_id=token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name) for kind, _, name in renewers
        ],
    )
