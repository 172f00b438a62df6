"""Client quotas: how much users, client ids and addresses may take of each broker (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.client.admin.outcomes import error_of, value_of
from tidelog.client.admin.requests import ANYONE, CONTROLLER, Requests
from tidelog.client.errors import ClientError, ConfigError
from tidelog.wire.messages.client_quotas import (
    AlterClientQuotasEntryData,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    OpData,
)

QUOTA_DEFAULT: Final = ""
"""As a name: whoever has no quota of their own. A user or client id is never empty."""

_USER, _CLIENT_ID, _IP = "user", "client-id", "ip"
_EXACT, _DEFAULT, _ANY = 0, 1, 2


@dataclass(frozen=True, slots=True)
class QuotaEntity:
    """Whom a quota is for: a user, a client id, both, or an address. `QUOTA_DEFAULT` stands for all others of a kind."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None

    def __str__(self) -> str:
        named = ((_USER, self.user), (_CLIENT_ID, self.client_id), (_IP, self.ip))
        return ", ".join(f"{kind} {name or '(default)'}" for kind, name in named if name is not None)


class QuotaCalls:
    """What an admin does with client quotas."""

    _requests: Requests

    async def describe_client_quotas(
        self, matching: Mapping[str, str | None] | None = None, *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas that are set, by their keys: all, or those whose entities match.

        `matching` says for a kind (`user`, `client-id`, `ip`) which name: one, `QUOTA_DEFAULT`, or None for any. An entity may
        have other kinds as well, unless it is `strict`.

        >>> await admin.describe_client_quotas({"user": "alice"})
        {QuotaEntity(user='alice', client_id=None, ip=None): {'producer_byte_rate': 1048576.0}}
        """
        components = [
            ComponentData(entity_type=kind, match_type=_match_type(name), match=name or None)
            for kind, name in (matching or {}).items()
        ]
        request = DescribeClientQuotasRequest(components=components, strict=strict)
        answer = await self._requests.ask(
            ANYONE, request, DescribeClientQuotasResponse, codes=lambda each: [each.error_code]
        )
        value_of(error_of(answer.error_code, answer.error_message))
        return {
            _entity(each.entity): {value.key: value.value for value in each.values} for each in answer.entries or ()
        }

    async def alter_client_quotas(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> dict[QuotaEntity, ClientError | None]:
        """Set quotas, or remove them (None). What is not named stays. All keys of an entity are changed, or none.

        >>> await admin.alter_client_quotas({QuotaEntity(user="alice"): {"producer_byte_rate": 1048576}})
        """
        request = AlterClientQuotasRequest(
            entries=[
                AlterClientQuotasEntryData(
                    entity=_parts(entity),
                    ops=[
                        OpData(key=key, value=0.0 if value is None else float(value), remove=value is None)
                        for key, value in values.items()
                    ],
                )
                for entity, values in changes.items()
            ],
            validate_only=validate_only,
        )
        answer = await self._requests.ask(
            CONTROLLER,
            request,
            AlterClientQuotasResponse,
            codes=lambda each: [entry.error_code for entry in each.entries],
        )
        return {_entity(each.entity): error_of(each.error_code, each.error_message) for each in answer.entries}

    async def alter_client_quota(self, entity: QuotaEntity, values: Mapping[str, float | None]) -> None:
        """The same for one entity; an error is raised."""
        value_of((await self.alter_client_quotas({entity: values}))[entity])


def _match_type(name: str | None) -> int:
    return _ANY if name is None else _EXACT if name else _DEFAULT


def _parts(entity: QuotaEntity) -> list[EntityData]:
    named = ((_USER, entity.user), (_CLIENT_ID, entity.client_id), (_IP, entity.ip))
    parts = [EntityData(entity_type=kind, entity_name=name or None) for kind, name in named if name is not None]
    if not parts:
        raise ConfigError("a quota is for a user, a client id or an address: name one")
    return parts


def _entity(parts: list[EntityData]) -> QuotaEntity:
    names = {part.entity_type: part.entity_name or QUOTA_DEFAULT for part in parts}
    return QuotaEntity(names.get(_USER), names.get(_CLIENT_ID), names.get(_IP))
