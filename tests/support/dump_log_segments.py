"""Kafka's DumpLogSegments: run over files, its text taken apart, its complaints found.

What it prints about a sound file goes to standard output only. A damaged one shows as a line on standard error (index
entries that disagree with the log, offsets that jump, a snapshot whose checksum is wrong), as `isvalid: false` on a batch,
as a line about invalid bytes at the end, or as an exception that ends the tool.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.apache_kafka import ApacheKafka, KafkaError, Output

TOOL = "org.apache.kafka.tools.DumpLogSegments"
_RECORD = re.compile(
    r"\| offset: (\d+) \w+: -?\d+ keySize: -?\d+ valueSize: -?\d+ sequence: -?\d+ headerKeys: \[[^]]*\] ?(.*)"
)
_CONTROL = re.compile(r"(\w+):? (\{.*\})")
_FIELD = re.compile(r"(\w+): (\S+)")
# Kafka shows an optional number as `OptionalLong[7]` or `OptionalLong.empty`.
_NUMBER = re.compile(r"-?\d+")
# 4.3.1 takes the first offset of any segment but the first for a jump from -1, in Kafka's own logs as well.
_FIRST_OFFSET = re.compile(r"^  -1 is followed by \d+$", re.MULTILINE)


@dataclass(frozen=True)
class Dump:
    """What the tool printed about one file."""

    lines: tuple[str, ...]

    def entries(self) -> list[dict[str, int]]:
        """The entries of an index or producer snapshot, one per line; a field that is empty is left out."""
        return [_fields(line) for line in self.lines if _FIELD.match(line)]

    def decoded_records(self) -> list[dict[str, Any]]:
        """The records of an internal log as its decoder shows them: `key` and `payload`, or `control` and its `content`."""
        return [_decoded(line) for line in self.lines if line.startswith("| ")]


def _fields(line: str) -> dict[str, int]:
    found = ((name, _NUMBER.search(value)) for name, value in _FIELD.findall(line))
    return {name: int(number[0]) for name, number in found if number is not None}


def _decoded(line: str) -> dict[str, Any]:
    found = _RECORD.fullmatch(line)
    if found is None:
        raise KafkaError(f"DumpLogSegments printed a record in a form that is not known here: {line}")
    record: dict[str, Any] = {"offset": int(found[1])}
    rest = found[2]
    if rest.startswith(("key: ", "payload: ")):
        while rest:
            name, text = rest.split(": ", 1)
            if text.startswith("{"):
                record[name], end = json.JSONDecoder().raw_decode(text)
            else:
                # A word in place of JSON: the tool's own mark for a value that is not there.
                record[name], end = text, len(text)
            rest = text[end:].strip()
    elif rest.startswith("endTxnMarker: "):
        marker = dict(_FIELD.findall(rest))
        record |= {"control": marker["endTxnMarker"], "content": {"coordinatorEpoch": int(marker["coordinatorEpoch"])}}
    elif control := _CONTROL.fullmatch(rest):
        record |= {"control": control[1], "content": json.loads(control[2])}
    return record


def run(kafka: ApacheKafka, files: Sequence[Path], *options: str) -> Output:
    return kafka.tool(TOOL, "--files", ",".join(str(file) for file in files), *options)


def complaints(output: Output) -> list[str]:
    """Everything in the tool's output that says a file is not sound; empty for sound files."""
    found = [
        line
        for line in _FIRST_OFFSET.sub("", output.stderr).splitlines()
        if line.strip() and not line.startswith("Non-consecutive offsets in")
    ]
    found += [line for line in output.stdout.splitlines() if "isvalid: false" in line or "invalid bytes" in line]
    if output.code != 0:
        found.append(f"the tool ended with code {output.code}")
    return found


def split(output: Output) -> dict[Path, Dump]:
    """What was printed about each file."""
    found: dict[Path, Dump] = {}
    for part in re.split(r"^Dumping ", output.stdout, flags=re.MULTILINE)[1:]:
        path, *lines = part.splitlines()
        found[Path(path)] = Dump(tuple(lines))
    return found


def dump_log_segments(kafka: ApacheKafka, files: Sequence[Path], *options: str) -> dict[Path, Dump]:
    """Runs the tool over files that must be sound; KafkaError with its complaints if they are not."""
    if not files:
        return {}
    output = run(kafka, files, *options)
    if found := complaints(output):
        raise KafkaError("DumpLogSegments complains:\n" + "\n".join(found[:20]))
    return split(output)
