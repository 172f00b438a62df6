"""An X-ray as a drawing: a lane for the producer, the leader, each follower and the consumers, and a row for each step.

Rows are in the order of the events, not to a scale of time: what takes microseconds and what takes seconds is to be read alike.
The time of each stands beside it. Colours follow the reader's choice of dark or light. What the cluster says is escaped: a client
may call itself anything.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from tidelog.cli.rendering import printable
from tidelog.cli.xray.xray_story import as_lines

Json = Any
Event = Mapping[str, Any]

_TIME_WIDTH = 118
_LANE_WIDTH = 236
_ROW_HEIGHT = 36
_HEAD_HEIGHT = 96
_FOOT_HEIGHT = 18
_BOX_WIDTH = 220
# What fits between two lanes, and into a box.
_LABEL_CHARS = 36
# A replica set of more is no drawing any more: the story has them all.
_LANES_MAX = 9
_ROWS_MAX = 120

PRODUCER, CONSUMERS = "producer", "consumers"

_STYLE = """
.xray { font: 12px ui-sans-serif, system-ui, "Segoe UI", Roboto, sans-serif;
  --ink: #17212b; --soft: #5b6b7a; --line: #c3ccd5; --paper: #ffffff; --band: #f3f6f9; --box: #ffffff;
  --write: #0b6bcb; --copy: #7a4fbf; --commit: #157f3b; --read: #b25000; --gap: #b3261e; }
@media (prefers-color-scheme: dark) { .xray {
  --ink: #e6edf3; --soft: #9aa8b5; --line: #3a4653; --paper: #10161c; --band: #161e26; --box: #1b252f;
  --write: #58a6ff; --copy: #b392f0; --commit: #56d364; --read: #f0a35e; --gap: #ff7b72; } }
.xray text { fill: var(--ink); }
.xray .soft { fill: var(--soft); }
.xray .paper { fill: var(--paper); }
.xray .band { fill: var(--band); }
.xray .lane { stroke: var(--line); stroke-width: 2; }
.xray .title { font-size: 17px; font-weight: 600; }
.xray .head { font-weight: 600; }
.xray .box { fill: var(--box); stroke-width: 1.5; }
.xray .arrow { fill: none; stroke-width: 1.75; }
.xray .time { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 11px; }
.xray .write { stroke: var(--write); }
.xray .copy { stroke: var(--copy); }
.xray .commit { stroke: var(--commit); }
.xray .read { stroke: var(--read); }
.xray .gap { stroke: var(--gap); stroke-dasharray: 4 3; }
.xray .place { stroke: var(--line); }
.xray .tip-write { fill: var(--write); }
.xray .tip-copy { fill: var(--copy); }
.xray .tip-commit { fill: var(--commit); }
.xray .tip-read { fill: var(--read); }
"""

_ARROWS = ("write", "copy", "commit", "read")


class Step(NamedTuple):
    """A row: something on one lane, or from one to another."""

    lane: str
    to: str | None
    label: str
    kind: str
    """write, copy, commit, read, gap or place: its colour."""
    time: str = ""
    note: str = ""
    """Below the time."""


def as_svg(xray: Mapping[str, Json]) -> str:
    """The drawing, as a file of its own."""
    lanes = _lanes(xray)
    steps = _steps(xray)
    if len(steps) > _ROWS_MAX:
        left = len(steps) - _ROWS_MAX
        steps = [*steps[:_ROWS_MAX], Step(lanes[1][0], None, f"and {left} more, in the story", "gap")]
    centre = {name: _TIME_WIDTH + _LANE_WIDTH * place + _LANE_WIDTH // 2 for place, (name, _, _) in enumerate(lanes)}
    width = _TIME_WIDTH + _LANE_WIDTH * len(lanes) + 12
    height = _HEAD_HEIGHT + _ROW_HEIGHT * len(steps) + _FOOT_HEIGHT
    label = escape(_title(xray), quote=True)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="xray" {size} role="img" aria-label="{label}">',
        f"<style>{_STYLE}</style>",
        f"<defs>{''.join(map(_tip, _ARROWS))}</defs>",
        f'<rect class="paper" width="{width}" height="{height}"/>',
        _text(14, 26, _title(xray), "title"),
        _text(14, 46, _subtitle(xray), "soft"),
    ]
    for number in range(0, len(steps), 2):
        y = _HEAD_HEIGHT + _ROW_HEIGHT * number
        parts.append(f'<rect class="band" x="0" y="{y}" width="{width}" height="{_ROW_HEIGHT}"/>')
    for name, head, below in lanes:
        x = centre[name]
        parts.append(f'<line class="lane" x1="{x}" y1="{_HEAD_HEIGHT}" x2="{x}" y2="{height - _FOOT_HEIGHT}"/>')
        parts.append(_text(x, 72, head, "head", "middle"))
        parts.append(_text(x, 88, below, "soft", "middle"))
    for number, step in enumerate(steps):
        parts += _row(step, _HEAD_HEIGHT + _ROW_HEIGHT * number, centre)
    return "\n".join([*parts, "</svg>", ""])


def as_html(xray: Mapping[str, Json]) -> str:
    """A page with the drawing and the story. It loads nothing."""
    title = escape(_title(xray))
    story = "\n".join(escape(printable(line)) for line in as_lines(xray))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width">\n<meta name="color-scheme" content="light dark">\n'
        "<style>body { margin: 24px; font: 14px system-ui, sans-serif } svg { max-width: 100%; height: auto }"
        " pre { overflow-x: auto }</style>\n"
        f"</head>\n<body>\n{as_svg(xray)}<pre>{story}</pre>\n</body>\n</html>\n"
    )


# --- lanes -----------------------------------------------------------------------------------------------------------------


def _lanes(xray: Mapping[str, Json]) -> list[tuple[str, str, str]]:
    """Name, head, and what is said below it, from left to right."""
    leader = xray["leader"]
    replicas = sorted(xray["replicas"], key=lambda each: (each["node"] != leader, each["node"]))
    lanes = [(PRODUCER, "producer", _producer_of(xray))]
    for each in replicas[: _LANES_MAX - 2]:
        role = "leader" if each["is_leader"] else "follower"
        state = "in sync" if each["in_sync"] else "not in sync"
        lanes.append(
            (_lane(each["node"]), f"{role} {each['node']}", state if each["traced"] else f"{state}, not traced")
        )
    names = [each["group"] for each in xray["commits"]]
    below = _cut(", ".join(names), 30) if names else "no group has committed"
    return [*lanes, (CONSUMERS, "consumers", below)]


def _lane(node: int) -> str:
    return f"node {node}"


def _producer_of(xray: Mapping[str, Json]) -> str:
    for each in xray["events"]:
        if each["type"] == "produce_received":
            return _cut(each["client_id"] or "without a name", 28)
    number = xray["batch"]["producer_id"]
    return f"id {number}" if number >= 0 else "without an id"


def _title(xray: Mapping[str, Json]) -> str:
    return f"{xray['topic']}-{xray['partition']} offset {xray['offset']}"


def _subtitle(xray: Mapping[str, Json]) -> str:
    batch = xray["batch"]
    count = f"{batch['record_count']} record{'' if batch['record_count'] == 1 else 's'}"
    how = (
        "heard while it moved"
        if xray["listened"]
        else "told by files and protocol; nobody listened when it was written"
    )
    if xray["listened"]:
        how += "; times in microseconds on the leader's clock"
    return f"batch of {count}, {batch['size']} bytes, crc {batch['crc']:#010x}, epoch {batch['partition_leader_epoch']}; {how}"


# --- steps -----------------------------------------------------------------------------------------------------------------


def _steps(xray: Mapping[str, Json]) -> list[Step]:
    events = xray["events"]
    steps = [step for each in events if (step := _step_of(each, events[0]["at_us"], xray)) is not None]
    return steps or _places(xray)


def _step_of(event: Event, begun_us: float, xray: Mapping[str, Json]) -> Step | None:
    here = _lane(event["node"])
    time = f"{event['at_us'] - begun_us:,.0f} µs"
    note = f"±{event['uncertainty_us']:,.0f}" if event["uncertainty_us"] else ""
    match event["type"]:
        case "produce_received":
            label = f"{event['records']} record{'' if event['records'] == 1 else 's'}, {event['bytes']} bytes"
            return Step(PRODUCER, here, label, "write", time, note)
        case "appended":
            kind = "copy" if event["by"] == "follower" else "write"
            return Step(
                here, None, f"{_short_file(event['file'])} @ {event['position']}, LEO {event['leo']}", kind, time, note
            )
        case "index_entry":
            label = f"index entry {event['entry_number']}: {event['offset']} @ {event['position']}"
            return Step(here, None, label, "place", time, note)
        case "follower_fetch_answered":
            return Step(here, _lane(event["replica"]), f"{event['bytes']} bytes", "copy", time, note)
        case "follower_fetch":
            return Step(_lane(event["replica"]), here, f"fetch from {event['fetch_offset']}", "copy", time, note)
        case "hw_moved":
            by = f" by node {event['by']}" if isinstance(event["by"], int) else ""
            return Step(here, None, f"high watermark {event['hw']}{by}", "commit", time, note)
        case "lso_moved" if event["node"] == xray["leader"]:
            return Step(here, None, f"last stable offset {event['lso']}", "commit", time, note)
        case "produce_answered":
            label = f"offset {event['base_offset']}" if event["error"] == "NONE" else event["error"]
            return Step(here, PRODUCER, label, "write", time, note)
        case "fetch_answered":
            return Step(here, CONSUMERS, f"{event['bytes']} bytes to {event['client_id']}", "read", time, note)
        case "offset_committed":
            return Step(CONSUMERS, here, f"commits {event['offset']}", "read", time, note)
        case "isr_changed":
            return Step(here, None, f"in sync: {', '.join(map(str, event['isr']))}", "commit", time, note)
        case "role_changed":
            return Step(here, None, f"{event['role']}, epoch {event['leader_epoch']}", "place", time, note)
        case "truncated":
            return Step(here, None, f"cut back to {event['to_offset']}", "gap", time, note)
        case "gap" | "dropped":
            return Step(here, None, "events are missing here", "gap", time, note)
        case _:
            return None


def _places(xray: Mapping[str, Json]) -> list[Step]:
    """Where the record is, of which nobody has heard how it came there."""
    steps = []
    for each in sorted(xray["replicas"], key=lambda each: (not each["is_leader"], each["node"])):
        lane = _lane(each["node"])
        if each["file"] is None:
            steps.append(Step(lane, None, "not traced", "gap"))
        else:
            kind = "write" if each["is_leader"] else "copy"
            steps.append(Step(lane, None, f"{_short_file(each['file'])} @ {each['position']}, LEO {each['leo']}", kind))
    index = xray["index"]
    entry = None if index is None else index["batch_entry"] or index["offset_entry"]
    leader = _lane(xray["leader"])
    if entry is not None:
        label = f"index entry {entry['entry_number']}: {entry['offset']} @ {entry['position']}"
        steps.append(Step(leader, None, label, "place"))
    is_committed = xray["hw"] > xray["offset"]
    steps.append(Step(leader, None, f"high watermark {xray['hw']}", "commit" if is_committed else "gap"))
    for each in xray["commits"][:20]:
        where = "passed it" if each["passed"] else "not there yet"
        steps.append(Step(CONSUMERS, None, f"{each['group']}: {each['committed']}, {where}", "read"))
    return steps


def _short_file(name: str) -> str:
    """A segment's name without the zeros that fill it up."""
    stem, dot, suffix = name.partition(".")
    return f"{stem.lstrip('0') or '0'}{dot}{suffix}"


# --- shapes ----------------------------------------------------------------------------------------------------------------


def _row(step: Step, top: int, centre: Mapping[str, int]) -> Sequence[str]:
    middle = top + _ROW_HEIGHT // 2
    parts = []
    if step.time:
        parts.append(_text(_TIME_WIDTH - 12, middle + (-1 if step.note else 4), step.time, "time", "end"))
    if step.note:
        parts.append(_text(_TIME_WIDTH - 12, middle + 12, step.note, "time soft", "end"))
    here = centre.get(step.lane)
    there = None if step.to is None else centre.get(step.to)
    if here is None:
        # A coordinator that has no replica of this partition has no lane.
        here = there if there is not None else _TIME_WIDTH + _LANE_WIDTH // 2
        there = None
    if there is None:
        x = here - _BOX_WIDTH // 2
        parts.append(
            f'<rect class="box {step.kind}" x="{x}" y="{top + 6}" width="{_BOX_WIDTH}" height="{_ROW_HEIGHT - 12}" rx="6"/>'
        )
        parts.append(_text(here, middle + 4, _cut(step.label, _LABEL_CHARS), "", "middle"))
        return parts
    y = middle + 7
    parts.append(
        f'<line class="arrow {step.kind}" x1="{here}" y1="{y}" x2="{there}" y2="{y}" marker-end="url(#tip-{step.kind})"/>'
    )
    # Between the lane that it comes from and the next one, so that no other lane's line runs through it.
    side = 1 if there > here else -1
    parts.append(_text(here + side * _LANE_WIDTH // 2, middle, _cut(step.label, _LABEL_CHARS), "", "middle"))
    return parts


def _tip(kind: str) -> str:
    """The end of an arrow."""
    turns = 'viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto-start-reverse"'
    return f'<marker id="tip-{kind}" {turns}><path d="M0 0L10 5L0 10z" class="tip-{kind}"/></marker>'


def _text(x: int, y: int, text: str, style: str, anchor: str = "start") -> str:
    styled = f' class="{style}"' if style else ""
    return f'<text x="{x}" y="{y}"{styled} text-anchor="{anchor}">{escape(printable(text))}</text>'


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
