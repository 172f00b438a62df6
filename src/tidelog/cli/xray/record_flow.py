"""Which of the events that were heard are about one record.

A record is in a batch, so that its events are those of the batch: it came in with a request, was appended at a place, copied by
each follower, passed by the high watermark, and so on. Of what happens again and again, such as fetches, the first counts that
has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

Event = Mapping[str, Any]


def events_of(events: Iterable[Event], offset: int) -> list[Event]:
    """Those about the record at an offset, in the order in which they are given."""
    heard = list(events)
    batch = next((each for each in heard if _holds(each, offset) and each["by"] != "follower"), None)
    if batch is None:
        return [each for each in heard if each["type"] in {"gap", "dropped"}]
    found = [each for each in heard if _is_about(each, offset, batch)]
    return _first_of_each(found, _request_of(heard, batch))


def is_through(events: Sequence[Event], offset: int, in_sync: Iterable[int], *, is_acked: bool = True) -> bool:
    """Whether all of a record's way is told: copied by who is in sync, committed, and answered."""
    kinds = {(each["type"], each["node"]) for each in events}
    leader = next((each["node"] for each in events if _holds(each, offset) and each["by"] != "follower"), None)
    if leader is None:
        return False
    is_copied = all(("appended", node) in kinds for node in in_sync)
    return is_copied and ("hw_moved", leader) in kinds and (not is_acked or ("produce_answered", leader) in kinds)


def _holds(event: Event, offset: int) -> bool:
    return bool(event["type"] == "appended" and event["base_offset"] <= offset <= event["last_offset"])


def _is_about(event: Event, offset: int, batch: Event) -> bool:
    match event["type"]:
        case "appended":
            return _holds(event, offset)
        case "index_entry":
            return bool(event["index"] == "offset" and event["offset"] == batch["last_offset"])
        case "follower_fetch_answered" | "fetch_answered":
            return bool(event["from_offset"] <= offset < event["to_offset"])
        case "follower_fetch":
            return bool(event["fetch_offset"] > offset)
        case "hw_moved":
            return bool(event["hw"] > offset)
        case "lso_moved":
            return bool(event["lso"] > offset)
        case "produce_answered":
            return bool(event["base_offset"] == batch["base_offset"])
        case "offset_committed":
            same = event["topic"], event["partition"]
            return bool(event["offset"] > offset) and same == (
                batch.get("topic", same[0]),
                batch.get("partition", same[1]),
            )
        case "gap" | "dropped" | "isr_changed" | "role_changed" | "truncated":
            return True
        case _:
            return False


def _request_of(heard: Sequence[Event], batch: Event) -> Event | None:
    """The request that brought a batch: the last one before it that says the same of its producer."""
    names = ("node", "producer_id", "producer_epoch", "base_sequence")
    before = heard[: next(place for place, each in enumerate(heard) if each is batch)]
    for each in reversed(before):
        if each["type"] == "produce_received" and all(each[name] == batch[name] for name in names):
            return each
    return None


# What happens once for each of these, and again for later records.
_ONCE: Mapping[str, Callable[[Event], object]] = {
    "appended": lambda event: event["node"],
    "index_entry": lambda event: event["node"],
    "follower_fetch": lambda event: event["replica"],
    "follower_fetch_answered": lambda event: event["replica"],
    "hw_moved": lambda event: event["node"],
    "lso_moved": lambda event: event["node"],
    "produce_answered": lambda _event: None,
    "fetch_answered": lambda event: event["client_id"],
    "offset_committed": lambda event: event["client_id"],
}


def _first_of_each(found: Sequence[Event], request: Event | None) -> list[Event]:
    seen: set[tuple[str, object]] = set()
    kept: list[Event] = [] if request is None else [request]
    for each in found:
        once = _ONCE.get(each["type"])
        if once is not None:
            what = (each["type"], once(each))
            if what in seen:
                continue
            seen.add(what)
        kept.append(each)
    return kept
