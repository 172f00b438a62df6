"""The plain part of YAML that manifests need: mappings, lists, texts and numbers. Pure.

Every text is quoted as JSON is, so that no `no`, `1e3` or `3.10` is taken for something else.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

Yaml: TypeAlias = "Mapping[str, Yaml] | Sequence[Yaml] | str | int | bool"


def documents(manifests: Sequence[Yaml]) -> str:
    return "---\n".join("\n".join(_lines(each)) + "\n" for each in manifests)


def _lines(value: Yaml) -> Iterator[str]:
    if isinstance(value, Mapping | list | tuple) and not value:
        yield _scalar(value)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _entry(f"{key}:", each)
    elif isinstance(value, list | tuple):
        for each in value:
            first, *others = _lines(each)
            yield f"- {first}"
            yield from (f"  {line}" for line in others)
    else:
        yield _scalar(value)


def _entry(key: str, value: Yaml) -> Iterator[str]:
    if isinstance(value, str) and "\n" in value and not value.startswith((" ", "\n")):
        # What people read in a manifest, such as a file, as its lines.
        yield f"{key} {'|' if value.endswith(chr(10)) else '|-'}"
        yield from (f"  {line}" if line else "" for line in value.rstrip("\n").split("\n"))
    elif isinstance(value, Mapping | list | tuple) and value:
        yield key
        yield from (f"  {line}" for line in _lines(value))
    else:
        yield f"{key} {_scalar(value)}"


def _scalar(value: Yaml) -> str:
    return json.dumps(value, ensure_ascii=False)
