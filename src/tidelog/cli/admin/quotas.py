"""`tidelog quotas`: how much users, client ids and addresses may take of each broker, and changes to it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tidelog.cli.admin_session import QuestionError, administer, parse_pairs, print_json, print_line, print_table
from tidelog.client.admin import QUOTA_DEFAULT, AsyncAdmin, QuotaEntity

_COMMAND = "quotas"

# Asked when the command runs: it may say that the options contradict each other.
Whose = Callable[[], QuotaEntity]


def quota_entity(
    user: str | None, client_id: str | None, ip: str | None, defaults: tuple[bool, bool, bool]
) -> QuotaEntity:
    """Whom the options mean. QuestionError where they contradict each other."""
    names: list[str | None] = []
    for option, name, is_default in zip(("user", "client-id", "ip"), (user, client_id, ip), defaults, strict=True):
        if name is not None and is_default:
            raise QuestionError(f"--{option} and --{option}-default cannot be given together")
        if name == "":
            raise QuestionError(f"--{option} is empty: --{option}-default means all that have no quota of their own")
        names.append(QUOTA_DEFAULT if is_default else name)
    if names[2] is not None and (names[0] is not None or names[1] is not None):
        raise QuestionError("a quota of an address cannot be one of a user or client id as well")
    return QuotaEntity(*names)


def list_quotas(bootstrap: str, whose: Whose, *, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        entity = whose()
        asked = {"user": entity.user, "client-id": entity.client_id, "ip": entity.ip}
        found = await admin.describe_client_quotas({kind: name for kind, name in asked.items() if name is not None})
        rows = sorted(
            ((each, key, value) for each, values in found.items() for key, value in values.items()),
            key=lambda row: (str(row[0]), row[1]),
        )
        if as_json:
            print_json(
                {
                    **{kind: name or None for kind, name in _named(each).items()},
                    "key": key,
                    "value": value,
                }
                for each, key, value in rows
            )
        elif not rows:
            print_line("there are no quotas")
        else:
            print_table(["for", "key", "value"], [(str(each), key, _number(value)) for each, key, value in rows])

    return administer(_COMMAND, bootstrap, work)


def change_quotas(bootstrap: str, whose: Whose, *, settings: Sequence[str] = (), removed: Sequence[str] = ()) -> int:
    async def work(admin: AsyncAdmin) -> None:
        entity = whose()
        if not _named(entity):
            raise QuestionError("whose quota? Give --user, --client-id or --ip, or one of them with -default")
        values: dict[str, float | None] = {key: _value(key, text) for key, text in parse_pairs(settings).items()}
        values.update(dict.fromkeys(removed))
        await admin.alter_client_quota(entity, values)
        for key, value in values.items():
            print_line(f"{entity}: {key} has no quota" if value is None else f"{entity}: {key}={_number(value)}")

    return administer(_COMMAND, bootstrap, work)


def _named(entity: QuotaEntity) -> dict[str, str]:
    names = {"user": entity.user, "client-id": entity.client_id, "ip": entity.ip}
    return {kind: name for kind, name in names.items() if name is not None}


def _value(key: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise QuestionError(f"{text!r} is not a quota for {key}: expected a number, as in producer_byte_rate=1048576")
    return value


def _number(value: float) -> int | float:
    return int(value) if value.is_integer() and abs(value) < 2**63 else value
