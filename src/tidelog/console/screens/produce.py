"""A record written by a person: new, edited, or sent again. The plan says where it would go."""

from __future__ import annotations

import base64
import binascii
from typing import Any

from tidelog.client.producer.murmur2 import partition_of
from tidelog.console.records.value_text import is_json
from tidelog.console.serving.answers import Json
from tidelog.console.serving.api_error import not_there, wrong_question
from tidelog.console.serving.call import Call, change

FORMATS = ("text", "json", "hex", "base64", "null")
VALUE_MAX = 1024 * 1024
HEADERS_MAX = 100


async def produce(call: Call) -> Json:
    topic, body = call.path("topic"), await call.body()
    described = await call.view.admin.describe_topic(topic)
    key = _bytes(body, "key", body.get("key_format") or ("null" if body.get("key") is None else "text"))
    value = _bytes(body, "value", body.get("value_format") or ("null" if body.get("value") is None else "text"))
    headers = _headers(body.get("headers") or [])
    partition = body.get("partition")
    if partition is not None and (not isinstance(partition, int) or isinstance(partition, bool)):
        raise wrong_question("partition is a number, or null for the one that the key stands for")
    if partition is not None and not 0 <= partition < len(described.partitions):
        raise not_there(f"topic {topic} has no partition {partition}")
    sizes = {"key": None if key is None else len(key), "value": None if value is None else len(value)}
    call.details |= {"topic": topic, "partition": partition, "bytes": sizes, "headers": len(headers)}
    if call.is_dry_run:
        chosen = partition
        if chosen is None and key is not None:
            chosen = int(partition_of(key, len(described.partitions)))
        return {
            "plan": {"topic": topic, "partition": chosen, "bytes": sizes, "headers": len(headers)},
            "applied": False,
        }
    delivery = await call.view.producer().send(topic, value, key, partition=partition, headers=headers)
    written = await delivery
    call.details |= {"partition": written.partition, "offset": written.offset}
    return {
        "partition": written.partition,
        "offset": written.offset,
        "timestamp_ms": written.timestamp_ms,
        "applied": True,
    }


def _bytes(body: dict[str, Any], name: str, form: str) -> bytes | None:
    """The bytes that a text stands for. ApiError for what is not of its format."""
    text = body.get(name)
    if form not in FORMATS:
        raise wrong_question(f"{name}_format is {form!r:.60}: one of {', '.join(FORMATS)}")
    if form == "null":
        return None
    if not isinstance(text, str):
        raise wrong_question(f"{name} is given as text; {name}_format is null for none")
    if len(text) > 2 * VALUE_MAX:
        raise wrong_question(f"{name} has at most {VALUE_MAX} bytes here")
    data = _decoded(text, name, form)
    if len(data) > VALUE_MAX:
        raise wrong_question(f"{name} has at most {VALUE_MAX} bytes here")
    return data


def _decoded(text: str, name: str, form: str) -> bytes:
    try:
        if form == "hex":
            return bytes.fromhex(text)
        if form == "base64":
            return base64.b64decode(text, validate=True)
        data = text.encode()
    except (ValueError, binascii.Error):
        raise wrong_question(f"{name} is not written in {form}") from None
    if form == "json" and not is_json(data):
        raise wrong_question(f"{name} is no JSON")
    return data


def _headers(given: object) -> list[tuple[str, bytes | None]]:
    """Pairs of a name and a text, or null."""
    if not isinstance(given, list) or len(given) > HEADERS_MAX:
        raise wrong_question(f"headers is a list of at most {HEADERS_MAX} pairs")
    headers: list[tuple[str, bytes | None]] = []
    for each in given:
        is_pair = isinstance(each, list) and len(each) == 2 and isinstance(each[0], str)
        if not is_pair or not (each[1] is None or isinstance(each[1], str)):
            raise wrong_question("a header is a pair of its name and its text, or null")
        headers.append((each[0], None if each[1] is None else each[1].encode(errors="replace")))
    return headers


ROUTES = [change("POST", "/topics/{topic}/records", produce, "produce")]
