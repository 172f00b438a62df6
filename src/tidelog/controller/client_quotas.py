"""Decisions about client quotas: AlterClientQuotas sets and removes limits of users, client ids and addresses (KIP-546).

An entity is changed as a whole or not at all; those that are, are changed together. A limit that is there makes no record.

An address may be the name of a host that can be resolved. Kafka looks it up when it decides, which would keep everybody waiting
for somebody else's server; here whoever asks for a decision has looked it up before.
"""

from __future__ import annotations

import ipaddress
import math
from collections.abc import Container, Mapping

from tidelog.controller.decision import Decision, Refusal, framed
from tidelog.controller.image import ClusterImage, QuotaEntity
from tidelog.model.config import INT_MAX, LONG_MAX
from tidelog.model.errors import ErrorCode
from tidelog.wire.internal_records import FramedRecord
from tidelog.wire.messages.client_quotas import (
    AlterClientQuotasEntryData,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)
from tidelog.wire.messages.internal.cluster_security import ClientQuotaRecord, EntityData as RecordEntity

USER, CLIENT_ID, IP = "user", "client-id", "ip"

# The largest value of limits that are whole numbers, and what Kafka calls their type; None for those that are not.
_CLIENT_LIMITS: Mapping[str, tuple[int, str] | None] = {
    "producer_byte_rate": (LONG_MAX, "a LONG"),
    "consumer_byte_rate": (LONG_MAX, "a LONG"),
    "request_percentage": None,
    "controller_mutation_rate": None,
}
_IP_LIMITS: Mapping[str, tuple[int, str] | None] = {"connection_creation_rate": (INT_MAX, "an INT")}

# How far from a whole number a limit may be that has to be one: it is sent as a floating-point number.
_WHOLE_WITHIN = 1e-6

Parts = dict[str, str | None]


def decide_alter_client_quotas(
    image: ClusterImage, request: AlterClientQuotasRequest, hosts: Container[str] = ()
) -> Decision[AlterClientQuotasResponse]:
    """`hosts`: those of its `host_names` that can be resolved."""
    records: list[FramedRecord] = []
    results: dict[QuotaEntity, AlterClientQuotasResponseEntryData] = {}
    for entry in request.entries:
        parts: Parts = {part.entity_type: part.entity_name for part in entry.entity}
        entity = QuotaEntity(tuple(sorted(parts.items(), key=lambda part: part[0])))
        keys = [op.key for op in entry.ops]
        if entity in results or len(set(keys)) != len(keys):
            # Kafka says the same of a key that is there twice.
            outcome: list[FramedRecord] | Refusal = _invalid(f"Ignoring duplicate entity {_described(entity)}")
        else:
            outcome = _changes(image, entity, parts, entry, hosts)
        if isinstance(outcome, Refusal):
            results[entity] = _answered(entity, outcome)
        else:
            results[entity] = _answered(entity, None)
            records += outcome
    answer = AlterClientQuotasResponse(throttle_time_ms=0, entries=list(results.values()))
    return Decision(answer, () if request.validate_only else tuple(records))


def host_names(request: AlterClientQuotasRequest) -> list[str]:
    """What stands in the place of an address and is none, each once."""
    parts = (part for entry in request.entries for part in entry.entity)
    named = (part.entity_name for part in parts if part.entity_type == IP and part.entity_name)
    return [name for name in dict.fromkeys(named) if not _is_address(name)]


def refuse_alter_client_quotas(request: AlterClientQuotasRequest, refusal: Refusal) -> AlterClientQuotasResponse:
    entries = [
        AlterClientQuotasResponseEntryData(error_code=refusal.error, error_message=refusal.message, entity=each.entity)
        for each in request.entries
    ]
    return AlterClientQuotasResponse(throttle_time_ms=0, entries=entries)


def _answered(entity: QuotaEntity, refusal: Refusal | None) -> AlterClientQuotasResponseEntryData:
    return AlterClientQuotasResponseEntryData(
        error_code=ErrorCode.NONE if refusal is None else refusal.error,
        error_message=None if refusal is None else refusal.message,
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.parts],
    )


def _invalid(message: str) -> Refusal:
    return Refusal(ErrorCode.INVALID_REQUEST, message)


def _described(entity: QuotaEntity) -> str:
    """As Java prints it."""
    names = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity.parts)
    return f"ClientQuotaEntity(entries={{{names}}})"


def _changes(
    image: ClusterImage, entity: QuotaEntity, parts: Parts, entry: AlterClientQuotasEntryData, hosts: Container[str]
) -> list[FramedRecord] | Refusal:
    limits = _limits_of(parts, hosts)
    if isinstance(limits, Refusal):
        return limits
    current = image.quotas.get(entity, {})
    records = []
    for op in entry.ops:
        if op.remove:
            if op.key in current:
                records.append(_record(image, entity, op.key, None))
            continue
        problem = _problem(limits, op.key, op.value)
        if problem is not None:
            return _invalid(problem)
        if current.get(op.key) != op.value:
            records.append(_record(image, entity, op.key, op.value))
    return records


def _record(image: ClusterImage, entity: QuotaEntity, key: str, value: float | None) -> FramedRecord:
    named = [RecordEntity(entity_type=kind, entity_name=name) for kind, name in entity.parts]
    return framed(image, ClientQuotaRecord(entity=named, key=key, value=value or 0.0, remove=value is None))


def _limits_of(parts: Parts, hosts: Container[str]) -> Mapping[str, tuple[int, str] | None] | Refusal:
    """The limits that an entity can have."""
    if not parts:
        return _invalid("Invalid empty client quota entity")
    for kind, name in parts.items():
        if kind not in (USER, CLIENT_ID, IP):
            return _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            return _invalid(f"Empty {kind} not supported")
    if IP not in parts:
        return _CLIENT_LIMITS
    if len(parts) > 1:
        return _invalid(
            "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"  # as Kafka has it
        )
    address = parts[IP]
    return (
        _IP_LIMITS
        if address is None or _is_address(address) or address in hosts
        else _invalid(f"{address} is not a valid IP or resolvable host.")
    )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def _problem(limits: Mapping[str, tuple[int, str] | None], key: str, value: float) -> str | None:
    if key not in limits:
        return f"Invalid configuration key {key}"
    if not value > 0:
        return f"Quota {key} must be greater than 0"
    whole = limits[key]
    if whole is None:
        return None
    largest, name = whole
    if value > largest:
        return f"Proposed value for {key} is too large for {name}."
    if math.fmod(value, 1.0) > _WHOLE_WITHIN:
        return f"{key} cannot be a fractional value."
    return None
