"""An X-ray as sentences: of what was heard while the record moved, and of what files and protocol still tell.

Each row has a sentence and its source: `listened`, `files` or `protocol`; `at_ms` only where somebody has a time for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.cli.rendering import time_as_text

Json = Any
Event = Mapping[str, Any]


def heard_story(events: Sequence[Event]) -> list[Json]:
    """One sentence an event."""
    return [
        {
            "sentence": each["sentence"],
            "source": "listened",
            "at_ms": each["at_us"] / 1000,
            "after_us": round(each["at_us"] - events[0]["at_us"], 1),
            "uncertainty_us": round(each["uncertainty_us"], 1),
        }
        for each in events
    ]


def told_story(facts: Mapping[str, Json]) -> list[Json]:
    """What files and protocol tell, in the order in which it must have been."""
    told: list[Json] = []

    def tell(sentence: str, source: str, at_ms: float | None = None) -> None:
        told.append({"sentence": sentence, "source": source, "at_ms": at_ms})

    batch = facts["batch"]
    _tell_batch(facts, tell)
    for replica in facts["replicas"]:
        node = replica["node"]
        who = "leader" if replica["is_leader"] else "follower"
        if replica["file"] is not None:
            sentence = f"{who} {node} has it in {replica['file']} at byte {replica['position']}; its log ends at {replica['leo']}"
            tell(sentence, "files")
        else:
            in_sync = "in sync" if replica["in_sync"] else "not in sync"
            tell(f"{who} {node} is {in_sync}; where the batch lies there is not told: {replica['problem']}", "protocol")
    if batch["is_valid"] is not None:
        tell(
            f"the checksum {batch['crc']:#010x} is {'right' if batch['is_valid'] else 'WRONG'} on the leader's disk",
            "files",
        )
    _tell_index(facts["index"], tell)
    if facts["hw"] > facts["offset"]:
        in_sync = ", ".join(map(str, facts["in_sync"]))
        tell(f"it is committed: the high watermark is {facts['hw']}, in sync are {in_sync}", "protocol")
    else:
        tell(f"it is not committed yet: the high watermark is {facts['hw']}", "protocol")
    if 0 <= facts["lso"] <= facts["offset"]:
        tell(f"readers of committed records wait before it, at {facts['lso']}: a transaction is open", "protocol")
    for each in facts["commits"]:
        passed = "has passed it" if each["passed"] else "has not come to it"
        tell(f"group {each['group']} has committed {each['committed']}: it {passed}", "protocol")
    return told


def _tell_batch(facts: Mapping[str, Json], tell: Any) -> None:
    batch = facts["batch"]
    who = (
        f"producer {batch['producer_id']} epoch {batch['producer_epoch']}"
        if batch["producer_id"] >= 0
        else "a producer"
    )
    count = f"{batch['record_count']} record{'' if batch['record_count'] == 1 else 's'}"
    what = f"{who} sent a batch of {count}"
    if batch["is_control"]:
        what = "a transaction ended here: this is its marker"
    if batch["base_sequence"] >= 0:
        what += f" with sequence {batch['base_sequence']}"
    tell(f"{what}, {batch['size']} bytes", "protocol", batch["max_timestamp"] if batch["max_timestamp"] >= 0 else None)
    begin, end = batch["base_offset"], batch["last_offset"]
    offsets = f"offset {begin}" if begin == end else f"offsets {begin} to {end}"
    tell(f"the leader of epoch {batch['partition_leader_epoch']} gave it {offsets}", "protocol")


def _tell_index(index: Json, tell: Any) -> None:
    if index is None:
        return
    own, before = index["batch_entry"], index["offset_entry"]
    if own is not None:
        tell(f"entry {own['entry_number']} of the offset index points at this batch: offset {own['offset']}", "files")
    elif before is not None:
        where = f"offset {before['offset']} at byte {before['position']}"
        tell(f"a search for it begins at entry {before['entry_number']} of the offset index: {where}", "files")
    else:
        tell("no entry of the offset index lies before it: a search begins at the start of the segment", "files")


def as_lines(xray: Mapping[str, Json]) -> list[str]:
    """For a terminal."""
    lines = [f"{xray['topic']}-{xray['partition']} offset {xray['offset']}"]
    story = xray["story"]
    heard = [each for each in story if each["source"] == "listened"]
    if heard:
        lines.append(f"heard, from {time_as_text(int(heard[0]['at_ms']))} on, microseconds on the leader's clock:")
        for each in heard:
            unsure = f" ±{each['uncertainty_us']:.0f}" if each["uncertainty_us"] else ""
            lines.append(f"  {each['after_us']:>10.0f}{unsure:<7}  {each['sentence']}")
    told = [each for each in story if each["source"] != "listened"]
    lines.append(
        "told afterwards, by files and protocol:"
        if heard
        else "told by files and protocol (nobody listened when it was written):"
    )
    for each in told:
        when = "" if each["at_ms"] is None else f" ({time_as_text(int(each['at_ms']))})"
        lines.append(f"  {each['source']:<10} {each['sentence']}{when}")
    lines += [f"not traced: {each}" for each in xray["not_traced"]]
    return lines
