"""`tidelog users`: who logs in by SCRAM, new passwords, and their end."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.cli.admin_session import (
    EXIT_WRONG_QUESTION,
    QuestionError,
    RefusalError,
    administer,
    complain,
    complain_later,
    print_json,
    print_line,
    print_table,
)
from tidelog.cli.users.password_input import read_password
from tidelog.client.admin import AsyncAdmin, ScramMechanism, UserScramDeletion, UserScramUpsertion, value_of
from tidelog.client.errors import ClientError, RefusedError
from tidelog.model.errors import ErrorCode

_COMMAND = "users"


def list_users(bootstrap: str, names: Sequence[str], *, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        described = await admin.describe_user_scram_credentials(names)
        rows = [
            (user, info.mechanism.mechanism_name, info.iterations)
            for user, infos in sorted(described.items())
            if not isinstance(infos, ClientError)
            for info in infos
        ]
        if as_json:
            print_json({"user": user, "mechanism": name, "iterations": number} for user, name, number in rows)
        elif rows:
            print_table(["user", "mechanism", "iterations"], rows)
        elif not names:
            print_line("there are no users")
        complain_later([error for error in described.values() if isinstance(error, ClientError)])

    return administer(_COMMAND, bootstrap, work)


def set_password(
    bootstrap: str, user: str, *, mechanism: str, iterations: int, password_file: str | None, is_new: bool
) -> int:
    try:
        # Before anything else: what cannot be done is not asked for.
        wanted = _mechanism(mechanism)
        password = read_password(f"password of {user}: ", password_file)
    except QuestionError as error:
        return complain(_COMMAND, str(error), EXIT_WRONG_QUESTION)

    async def work(admin: AsyncAdmin) -> None:
        if is_new and wanted in await _mechanisms(admin, user):
            raise RefusalError(f"user {user} has a password for {mechanism}: `tidelog users set` changes it")
        change = UserScramUpsertion(user, password, wanted, iterations)
        value_of((await admin.alter_user_scram_credentials([change]))[user])
        print_line(f"user {user} has a new password for {mechanism}")

    return administer(_COMMAND, bootstrap, work)


def remove_user(bootstrap: str, user: str, *, mechanism: str | None) -> int:
    async def work(admin: AsyncAdmin) -> None:
        removed = await _mechanisms(admin, user) if mechanism is None else [_mechanism(mechanism)]
        if not removed:
            raise RefusalError(f"there is no user {user}")
        # One after the other: a request names a user once.
        for each in removed:
            value_of((await admin.alter_user_scram_credentials([UserScramDeletion(user, each)]))[user])
            print_line(f"user {user} has no password for {each.mechanism_name} any more")

    return administer(_COMMAND, bootstrap, work)


async def _mechanisms(admin: AsyncAdmin, user: str) -> list[ScramMechanism]:
    """What a user has a password for."""
    found = (await admin.describe_user_scram_credentials([user]))[user]
    if isinstance(found, RefusedError) and found.code is ErrorCode.RESOURCE_NOT_FOUND:
        return []
    return [info.mechanism for info in value_of(found)]


def _mechanism(text: str) -> ScramMechanism:
    mechanism = ScramMechanism.named(text.upper())
    if mechanism is None:
        known = " or ".join(each.mechanism_name for each in ScramMechanism)
        raise QuestionError(f"{text!r} is no mechanism with passwords of its own: expected {known}")
    return mechanism
