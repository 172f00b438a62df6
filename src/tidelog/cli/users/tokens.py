"""`tidelog tokens`: delegation tokens from their beginning to their end."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.cli.admin_session import RefusalError, administer, print_json, print_line, print_table
from tidelog.cli.rendering import Json, time_as_text
from tidelog.client.admin import AsyncAdmin, DelegationToken

_COMMAND = "tokens"


def create_token(
    bootstrap: str, *, renewers: Sequence[str], owner: str | None, max_lifetime_ms: int | None, as_json: bool
) -> int:
    async def work(admin: AsyncAdmin) -> None:
        token = await admin.create_delegation_token(
            renewers=renewers, owner=owner, max_lifetime_ms=-1 if max_lifetime_ms is None else max_lifetime_ms
        )
        if as_json:
            print_json([_as_json(token, shows_hmac=True)])
        else:
            print_line(f"token   {token.token_id}")
            print_line(f"hmac    {token.password}")
            print_line(f"owner   {token.owner}")
            print_line(f"expires {time_as_text(token.expiry_timestamp_ms)}")
            print_line(f"ends    {time_as_text(token.max_timestamp_ms)}")

    return administer(_COMMAND, bootstrap, work)


def renew_token(bootstrap: str, token_id: str, *, period_ms: int | None, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        token = await _found(admin, token_id)
        expiry_ms = await admin.renew_delegation_token(
            token.hmac, renew_period_ms=-1 if period_ms is None else period_ms
        )
        _print_expiry(token_id, expiry_ms, as_json=as_json)

    return administer(_COMMAND, bootstrap, work)


def expire_token(bootstrap: str, token_id: str, *, period_ms: int | None, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        token = await _found(admin, token_id)
        expiry_ms = await admin.expire_delegation_token(
            token.hmac, expiry_time_period_ms=-1 if period_ms is None else period_ms
        )
        _print_expiry(token_id, expiry_ms, as_json=as_json)

    return administer(_COMMAND, bootstrap, work)


def list_tokens(bootstrap: str, *, owners: Sequence[str] | None, shows_hmac: bool, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        tokens = sorted(await admin.describe_delegation_token(owners), key=lambda each: each.issue_timestamp_ms)
        if as_json:
            print_json(_as_json(token, shows_hmac=shows_hmac) for token in tokens)
        elif not tokens:
            print_line("there are no tokens to see")
        else:
            titles = ["token", "owner", "renewers", "issued", "expires", "ends", *(["hmac"] if shows_hmac else [])]
            print_table(titles, [_row(token, shows_hmac=shows_hmac) for token in tokens])

    return administer(_COMMAND, bootstrap, work)


async def _found(admin: AsyncAdmin, token_id: str) -> DelegationToken:
    """A token by its id: so its HMAC is never typed, where others could read it."""
    for token in await admin.describe_delegation_token():
        if token.token_id == token_id:
            return token
    raise RefusalError(f"there is no token {token_id} that the caller may see")


def _print_expiry(token_id: str, expiry_ms: int, *, as_json: bool) -> None:
    if as_json:
        print_json([{"token_id": token_id, "expiry_timestamp_ms": expiry_ms}])
    else:
        print_line(f"token {token_id} expires {time_as_text(expiry_ms)}")


def _row(token: DelegationToken, *, shows_hmac: bool) -> list[object]:
    times = (token.issue_timestamp_ms, token.expiry_timestamp_ms, token.max_timestamp_ms)
    row: list[object] = [token.token_id, token.owner, ",".join(token.renewers) or "-", *map(time_as_text, times)]
    return [*row, token.password] if shows_hmac else row


def _as_json(token: DelegationToken, *, shows_hmac: bool) -> dict[str, Json]:
    row: dict[str, Json] = {
        "token_id": token.token_id,
        "owner": token.owner,
        "requester": token.requester,
        "renewers": list(token.renewers),
        "issue_timestamp_ms": token.issue_timestamp_ms,
        "expiry_timestamp_ms": token.expiry_timestamp_ms,
        "max_timestamp_ms": token.max_timestamp_ms,
    }
    if shows_hmac:
        row["hmac"] = token.password
    return row
