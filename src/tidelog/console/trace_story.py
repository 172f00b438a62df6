"""What an event of a node means, in one sentence.

story({"type": "hw_moved", "node": 1, "hw": 43, "by": 2})     "node 1: the high watermark is 43, moved by the fetch of node 2"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

Line = Mapping[str, object]
"""A line of `/trace`, decoded."""


def story(line: Line) -> str:
    """One sentence without a full stop. A type that is not known here is told by its name."""
    tell = _TELLERS.get(str(line.get("type")))
    try:
        told = str(line.get("type")).replace("_", " ") if tell is None else tell(line)
    except (KeyError, TypeError, ValueError):
        # Of another release: what it says is not what is expected.
        told = str(line.get("type")).replace("_", " ")
    return f"node {line.get('node', '?')}: {told}"


def _offsets(line: Line, first: str = "base_offset", last: str = "last_offset") -> str:
    begin, end = line[first], line[last]
    return f"offset {begin}" if begin == end else f"offsets {begin} to {end}"


def _records(count: object) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _client(line: Line) -> str:
    name = line.get("client_id")
    return f"client {name}" if name else "a client without a name"


def _hello(line: Line) -> str:
    if "topic" not in line:
        return f"listening, {line.get('state', '')}".rstrip(", ")
    who = {"leader": "leads", "follower": f"follows node {line['leader']} in", "none": "does not serve"}[
        str(line["role"])
    ]
    return f"{who} {line['topic']}-{line['partition']}, which ends at {line['leo']}, high watermark {line['hw']}"


def _received(line: Line) -> str:
    acks = {-1: "all", 0: "0", 1: "1"}.get(int(str(line["acks"])), str(line["acks"]))
    producer = ""
    if int(str(line["producer_id"])) >= 0:
        producer = f", producer {line['producer_id']} epoch {line['producer_epoch']} sequence {line['base_sequence']}"
    return f"{_client(line)} has sent {_records(line['records'])} in {line['bytes']} bytes, acks={acks}{producer}"


def _appended(line: Line) -> str:
    what = {
        "leader": "appended",
        "follower": "copied",
        "coordinator": "appended a coordinator's",
        "marker": "appended a transaction's marker at",
    }[str(line["by"])]
    return (
        f"{what} {_offsets(line)} to {line['file']} at byte {line['position']}, {line['size']} bytes, "
        f"epoch {line['leader_epoch']}; the log ends at {line['leo']}"
    )


def _index_entry(line: Line) -> str:
    if line["index"] == "time":
        return (
            f"entry {line['entry_number']} of {line['file']}: time {line['timestamp_ms']} up to offset {line['offset']}"
        )
    return f"entry {line['entry_number']} of {line['file']}: offset {line['offset']} is in the batch at byte {line['position']}"


def _moved(line: Line) -> str:
    by = line["by"]
    if by == "leader":
        why = "with the leader's own append" if line.get("node") == line.get("leader", line.get("node")) else ""
        why = why or "as the leader told"
    elif by == "isr":
        why = "moved by another in-sync set"
    else:
        why = f"moved by the fetch of node {by}"
    return f"the high watermark is {line['hw']}, {why}"


def _fetched(line: Line) -> str:
    to = int(str(line["to_offset"]))
    upto = f" up to {to}" if to >= 0 else " on, as much as fits"
    return f"from offset {line['from_offset']}{upto}, {line['bytes']} bytes"


def _answered(line: Line) -> str:
    if line["error"] != "NONE":
        return f"answered {_client(line)} with {line['error']}"
    return f"answered {_client(line)}: its batch begins at offset {line['base_offset']}"


_TELLERS: Mapping[str, Callable[[Line], str]] = {
    "hello": _hello,
    "heartbeat": lambda line: "still there" if line["leo"] == -1 else f"still there, the log ends at {line['leo']}",
    "dropped": lambda line: f"{line['count']} events are missing here: the listener was too slow",
    "gap": lambda line: f"events are missing here: {line['reason']}",
    "ended": lambda line: f"nothing more to hear: {line['reason']}",
    "produce_received": _received,
    "produce_refused": lambda line: f"refused the batch: {line['error']}",
    "produce_duplicate": lambda line: f"the producer has sent {_offsets(line)} again; nothing is appended",
    "appended": _appended,
    "index_entry": _index_entry,
    "follower_fetch": lambda line: (
        f"node {line['replica']} asks from offset {line['fetch_offset']} on, and so has everything before"
    ),
    "follower_fetch_answered": lambda line: f"answered node {line['replica']} {_fetched(line)}",
    "hw_moved": _moved,
    "lso_moved": lambda line: f"readers of committed records may read up to {line['lso']}",
    "produce_answered": _answered,
    "fetch_answered": lambda line: f"{_client(line)} was given records {_fetched(line)}, {line['isolation']}",
    "marker": lambda line: (
        f"producer {line['producer_id']} has {'committed' if line['commit'] else 'aborted'}, marked at offset {line['offset']}"
    ),
    "truncated": lambda line: f"cut the log back to offset {line['to_offset']}",
    "role_changed": lambda line: (
        (
            f"is {line['role']} from now on"
            if line["role"] != "follower"
            else f"follows node {line['leader']} from now on"
        )
        + f", epoch {line['leader_epoch']}"
    ),
    "isr_changed": lambda line: f"in sync are now {_nodes(line['isr'])}",
    "offset_committed": lambda line: (
        f"{_client(line)} has committed offset {line['offset']} of {line['topic']}-{line['partition']}"
    ),
    "rebalanced": lambda line: (
        f"the group is {line['state']} with {line['members']} members, generation {line['generation']}"
    ),
    "transaction_state": lambda line: f"the transaction is {line['state']}",
}


def _nodes(nodes: object) -> str:
    return ", ".join(map(str, nodes)) if isinstance(nodes, list | tuple) else str(nodes)
