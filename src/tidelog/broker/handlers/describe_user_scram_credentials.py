"""DescribeUserScramCredentials (50), v0: which users have a password for SASL/SCRAM, and of what kind (KIP-554).

No list of users, or an empty one, means all of them. Salts and keys are told to nobody.
"""

from __future__ import annotations

from collections import Counter

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import handles
from tidelog.broker.requests.node_view import Node
from tidelog.model.acl import CLUSTER_NAME, AclOperation, ResourceType
from tidelog.model.errors import ErrorCode
from tidelog.security.sasl.scram_credential import ScramMechanism
from tidelog.wire.messages.scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


@handles(DescribeUserScramCredentialsRequest)
def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, caller: Caller, node: Node
) -> DescribeUserScramCredentialsResponse:
    if not caller.may(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME):
        error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        # As in Kafka, which names nobody here.
        refused = [_refused("", error, error.message) for _ in request.users or ()]
        return _answer(refused, error)
    credentials = node.image.scram_credentials
    if request.users:
        named = Counter(user.name for user in request.users)
    else:
        named = Counter(dict.fromkeys((user for user, _ in credentials), 1))
    results = []
    for user, times in named.items():
        if times > 1:
            text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
            results.append(_refused(user, ErrorCode.DUPLICATE_RESOURCE, text))
            continue
        infos = [
            CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
            for mechanism in ScramMechanism
            if (credential := credentials.get((user, mechanism))) is not None
        ]
        if infos:
            results.append(
                DescribeUserScramCredentialsResult(
                    user=user, error_code=ErrorCode.NONE, error_message=None, credential_infos=infos
                )
            )
        else:
            text = f"Attempt to describe a user credential that does not exist: {user}"
            results.append(_refused(user, ErrorCode.RESOURCE_NOT_FOUND, text))
    return _answer(results)


def _refused(user: str, error: ErrorCode, message: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(user=user, error_code=error, error_message=message, credential_infos=[])


def _answer(
    results: list[DescribeUserScramCredentialsResult], error: ErrorCode = ErrorCode.NONE
) -> DescribeUserScramCredentialsResponse:
    return DescribeUserScramCredentialsResponse(
        throttle_time_ms=0,
        error_code=error,
        error_message=error.message if error else None,
        results=results,
    )
