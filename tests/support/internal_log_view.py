"""Records of the internal logs as DumpLogSegments' decoders show them, from what we decode."""

from __future__ import annotations

from typing import Any

from tests.support.message_values import to_json
from tidelog.wire.control_records import read_control_type
from tidelog.wire.internal_records import (
    CoordinatorLog,
    decode_control_value,
    decode_coordinator_record,
    decode_metadata_record,
    decode_version_prefixed,
)
from tidelog.wire.messages.internal.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from tidelog.wire.messages.internal.offset_records import GroupMetadataValue
from tidelog.wire.records import Record
from tidelog.wire.schema import Message

# What DumpLogSegments calls the control records whose content it prints.
CONTROL_NAMES = {
    "ABORT": "ABORT",
    "COMMIT": "COMMIT",
    "LEADER_CHANGE": "LeaderChange",
    "SNAPSHOT_HEADER": "SnapshotHeader",
    "SNAPSHOT_FOOTER": "SnapshotFooter",
    "KRAFT_VERSION": "KRaftVersion",
    "KRAFT_VOTERS": "KRaftVoters",
}


def shown_control(row: Record) -> dict[str, Any]:
    kind = read_control_type(row.key)
    message = decode_control_value(kind, row.value)
    return {"offset": row.offset, "control": CONTROL_NAMES[kind.name], "content": to_json(message, 0)}


def shown_metadata(row: Record) -> dict[str, Any]:
    assert row.value is not None
    message, version = decode_metadata_record(row.value)
    words = "".join(f"_{letter}" if letter.isupper() else letter.upper() for letter in type(message).__name__)
    payload = {"type": words.lstrip("_"), "version": version, "data": to_json(message, version)}
    return {"offset": row.offset, "payload": payload}


def shown_coordinator(log: CoordinatorLog, row: Record) -> dict[str, Any]:
    record = decode_coordinator_record(log, row.key, row.value)
    shown: dict[str, Any] = {
        "offset": row.offset,
        "key": {"type": str(record.key.api_key), "data": to_json(record.key, 0)},
        "payload": "<DELETE>",
    }
    if record.value is not None:
        data: dict[str, Any] = dict(to_json(record.value, record.version))
        if isinstance(record.value, GroupMetadataValue):
            # What a classic member subscribed to and was given is bytes to the group; the tool looks inside.
            for shown_member, member in zip(data["members"], record.value.members, strict=True):
                shown_member["subscription"] = shown_prefixed(ConsumerProtocolSubscription, member.subscription)
                shown_member["assignment"] = shown_prefixed(ConsumerProtocolAssignment, member.assignment)
        shown["payload"] = {"version": str(record.version), "data": data}
    return shown


def shown_prefixed(cls: type[Message], value: bytes) -> dict[str, Any]:
    version = int.from_bytes(value[:2], "big")
    return dict(to_json(decode_version_prefixed(cls, value), version))
