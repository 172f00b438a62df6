"""Decisions about users' passwords: AlterUserScramCredentials (KIP-554). The codes and texts are Kafka's.

A request carries a salt and the salted password, never the password; what is kept is less still, so that nobody can log in with
what the metadata log holds. Each user may be named once in a request; those with an error do not hold up the others, and what is
done for the others is one batch.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.controller.decision import RECORDS_PER_REQUEST_MAX, Decision, Refusal, RefusedError
from tidelog.controller.image import ClusterImage
from tidelog.model.errors import ErrorCode
from tidelog.security.sasl.scram_credential import ITERATIONS_MAX, ITERATIONS_MIN, ScramMechanism, credential_of
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.internal.cluster_security import RemoveUserScramCredentialRecord, UserScramCredentialRecord
from tidelog.wire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

# Kafka has no limit. Every node keeps every salt in memory, and a useful one is 16 bytes.
SALT_BYTES_MAX = 1024

_TWICE = Refusal(ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request")
_NO_SCRAM = Refusal(ErrorCode.UNSUPPORTED_VERSION, "The current metadata.version does not support SCRAM")


def decide_alter_scram_credentials(
    image: ClusterImage, request: AlterUserScramCredentialsRequest
) -> Decision[AlterUserScramCredentialsResponse]:
    if len(request.deletions) + len(request.upsertions) > RECORDS_PER_REQUEST_MAX:
        raise RefusedError(ErrorCode.INVALID_REQUEST, f"More than {RECORDS_PER_REQUEST_MAX} users in one request")
    problems: dict[str, Refusal] = {}
    deletions: dict[str, ScramCredentialDeletion] = {}
    upsertions: dict[str, ScramCredentialUpsertion] = {}
    for deletion in request.deletions:
        if deletion.name in problems:
            continue
        if deletions.pop(deletion.name, None) is not None:
            problems[deletion.name] = _TWICE
            continue
        problem = _deletion_problem(image, deletion) if image.metadata_version.has_scram else _NO_SCRAM
        if problem is None:
            deletions[deletion.name] = deletion
        else:
            problems[deletion.name] = problem
    for upsertion in request.upsertions:
        if upsertion.name in problems:
            continue
        is_named_twice = deletions.pop(upsertion.name, None) is not None
        if upsertions.pop(upsertion.name, None) is not None or is_named_twice:
            problems[upsertion.name] = _TWICE
            continue
        problem = _upsertion_problem(upsertion) if image.metadata_version.has_scram else _NO_SCRAM
        if problem is None:
            upsertions[upsertion.name] = upsertion
        else:
            problems[upsertion.name] = problem
    records = [
        FramedRecord(RemoveUserScramCredentialRecord(name=each.name, mechanism=each.mechanism), 0)
        for each in deletions.values()
    ]
    records += [FramedRecord(_record(each), 0) for each in upsertions.values()]
    results = [
        AlterUserScramCredentialsResult(user=user, error_code=ErrorCode.NONE, error_message=None)
        for user in (*deletions, *upsertions)
    ]
    results += _results(problems.items())
    return Decision(AlterUserScramCredentialsResponse(throttle_time_ms=0, results=results), tuple(records))


def refuse_alter_scram_credentials(
    request: AlterUserScramCredentialsRequest, refusal: Refusal
) -> AlterUserScramCredentialsResponse:
    users = sorted({each.name for each in request.deletions} | {each.name for each in request.upsertions})
    return AlterUserScramCredentialsResponse(throttle_time_ms=0, results=_results((user, refusal) for user in users))


def _results(problems: Iterable[tuple[str, Refusal]]) -> list[AlterUserScramCredentialsResult]:
    return [
        # Kafka tells no details of what went wrong inside.
        AlterUserScramCredentialsResult(
            user=user,
            error_code=problem.error,
            error_message=None if problem.error is ErrorCode.UNKNOWN_SERVER_ERROR else problem.message,
        )
        for user, problem in problems
    ]


def _record(upsertion: ScramCredentialUpsertion) -> UserScramCredentialRecord:
    mechanism = ScramMechanism(upsertion.mechanism)
    credential = credential_of(mechanism, upsertion.salt, upsertion.salted_password, upsertion.iterations)
    return UserScramCredentialRecord(
        name=upsertion.name,
        mechanism=upsertion.mechanism,
        salt=credential.salt,
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=credential.iterations,
    )


def _deletion_problem(image: ClusterImage, deletion: ScramCredentialDeletion) -> Refusal | None:
    problem = _user_problem(deletion)
    if problem is None and (deletion.name, deletion.mechanism) not in image.scram_credentials:
        return Refusal(ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return problem


def _upsertion_problem(upsertion: ScramCredentialUpsertion) -> Refusal | None:
    problem = _user_problem(upsertion)
    if problem is not None:
        return problem
    if upsertion.iterations < ITERATIONS_MIN:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if upsertion.iterations > ITERATIONS_MAX:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if len(upsertion.salt) > SALT_BYTES_MAX:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"The salt is longer than {SALT_BYTES_MAX} bytes")
    if not upsertion.salted_password:
        # Java has no keys without bytes, and what follows from that is no error of its own.
        return Refusal.of(ErrorCode.UNKNOWN_SERVER_ERROR)
    return None


def _user_problem(change: ScramCredentialDeletion | ScramCredentialUpsertion) -> Refusal | None:
    if not change.name:
        return Refusal(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if change.mechanism not in ScramMechanism.__members__.values():
        return Refusal(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return None
