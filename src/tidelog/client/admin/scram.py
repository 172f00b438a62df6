"""Users' passwords for SASL/SCRAM: who has one, and changes (KIP-554). No password leaves this process, only what it
is derived to.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tidelog.client.admin.outcomes import error_of, value_of
from tidelog.client.admin.requests import ANYONE, CONTROLLER, Requests
from tidelog.client.errors import ClientError, ConfigError
from tidelog.client.given_names import names_of
from tidelog.security.sasl.scram_credential import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    ScramMechanism,
    new_salt,
    salted_password,
)
from tidelog.wire.messages.scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
    UserName,
)


@dataclass(frozen=True, slots=True)
class ScramCredentialInfo:
    """What is told of a user's password."""

    mechanism: ScramMechanism
    iterations: int


@dataclass(frozen=True, slots=True)
class UserScramUpsertion:
    """A password that a user is to have from now on, whatever it was before. Without a salt a random one is made."""

    user: str
    password: str = field(repr=False)
    mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256
    iterations: int = ITERATIONS_MIN
    salt: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class UserScramDeletion:
    """A password that a user is to have no more. Who is logged in stays so."""

    user: str
    mechanism: ScramMechanism


class ScramCalls:
    """What an admin does with users' passwords."""

    _requests: Requests

    async def describe_user_scram_credentials(
        self, users: Iterable[str] = ()
    ) -> dict[str, tuple[ScramCredentialInfo, ...] | ClientError]:
        """Which passwords users have, of all where none are named.

        >>> (await admin.describe_user_scram_credentials(["alice"]))["alice"][0].iterations
        """
        named = names_of(users, "users")
        answer = await self._requests.ask(
            ANYONE,
            DescribeUserScramCredentialsRequest(users=[UserName(name=each) for each in named] or None),
            DescribeUserScramCredentialsResponse,
            codes=lambda each: [each.error_code],
        )
        value_of(error_of(answer.error_code, answer.error_message))
        described: dict[str, tuple[ScramCredentialInfo, ...] | ClientError] = {}
        for result in answer.results:
            error = error_of(result.error_code, result.error_message, about=f"user {result.user}")
            described[result.user] = error or tuple(
                ScramCredentialInfo(ScramMechanism(each.mechanism), each.iterations)
                for each in result.credential_infos
                # Of a mechanism that this release does not know nothing can be said.
                if each.mechanism in ScramMechanism.__members__.values()
            )
        return described

    async def alter_user_scram_credentials(
        self, changes: Iterable[UserScramUpsertion | UserScramDeletion]
    ) -> dict[str, ClientError | None]:
        """Give users passwords, or take them from them. A user may be named once.

        >>> await admin.alter_user_scram_credentials([UserScramUpsertion("alice", "alice-secret")])
        """
        listed = list(changes)
        if len({change.user for change in listed}) != len(listed):
            raise ConfigError("a user is named twice: make one change after the other")
        deletions = [
            ScramCredentialDeletion(name=each.user, mechanism=each.mechanism)
            for each in listed
            if isinstance(each, UserScramDeletion)
        ]
        wanted = [each for each in listed if isinstance(each, UserScramUpsertion)]
        # It takes milliseconds for each of them, by intent: the loop is the caller's.
        upsertions = await asyncio.to_thread(_upsertions, wanted) if wanted else []
        answer = await self._requests.ask(
            CONTROLLER,
            AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions),
            AlterUserScramCredentialsResponse,
            codes=lambda each: [result.error_code for result in each.results],
            # The same password twice is the same; what is gone cannot be removed again.
            is_repeatable=not deletions,
        )
        return {
            result.user: error_of(result.error_code, result.error_message, about=f"user {result.user}")
            for result in answer.results
        }


def _upsertions(wanted: Sequence[UserScramUpsertion]) -> list[ScramCredentialUpsertion]:
    upsertions = []
    for each in wanted:
        if not each.password:
            raise ConfigError(f"the password of user {each.user} is empty")
        salt = new_salt(secrets.SystemRandom()) if each.salt is None else each.salt
        if not 0 < each.iterations <= ITERATIONS_MAX:
            # The cluster would say so too, but only after they were computed here.
            raise ConfigError(f"{each.iterations} iterations are not {ITERATIONS_MIN} to {ITERATIONS_MAX}")
        upsertions.append(
            ScramCredentialUpsertion(
                name=each.user,
                mechanism=each.mechanism,
                iterations=each.iterations,
                salt=salt,
                salted_password=salted_password(each.mechanism, each.password, salt, each.iterations),
            )
        )
    return upsertions
