"""`tidelog consume --format TEXT`: a record as a text of one's own, in kcat's letters.

    %t topic   %p partition   %o offset   %T timestamp in milliseconds   %h headers, as name=text,name=text
    %k key     %K its bytes   %s or %v value   %S its bytes; -1 for null, which itself is shown as nothing   %% a percent sign
    \\n \\r \\t \\0 \\\\ \\xHH      as in C

Nothing is added, the end of a line neither.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from tidelog.cli.admin_session import QuestionError
from tidelog.client.consumer.records import ConsumerRecord

Row: TypeAlias = ConsumerRecord[Any, Any]
Shown: TypeAlias = Callable[[Any], bytes]

_ESCAPES = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(?P<letter>.?)|\\(?:x(?P<hex>[0-9a-fA-F]{2})|(?P<escape>.?))|[^%\\]+", re.DOTALL)


def format_renderer(text: str, shown: Shown) -> Callable[[Row], bytes]:
    """The function that makes the text of a record; `shown` makes keys, values and headers fit for where they go."""
    letters = _letters(shown)
    parts: list[Callable[[Row], bytes]] = []
    for token in _TOKEN.finditer(text):
        column = token.start() + 1
        if (letter := token["letter"]) is not None:
            if letter != "%" and letter not in letters:
                what = f"%{letter} is no field" if letter else "% ends the text without a letter"
                raise QuestionError(
                    f"--format: {what} at column {column}; there are {' '.join(f'%{k}' for k in letters)} %%"
                )
            parts.append(letters[letter] if letter != "%" else _constant(b"%"))
        elif token["hex"] is not None:
            parts.append(_constant(bytes.fromhex(token["hex"])))
        elif (escape := token["escape"]) is not None:
            if escape not in _ESCAPES:
                raise QuestionError(
                    f"--format: \\{escape} is no escape at column {column}; there are \\n \\r \\t \\0 \\\\ \\xHH"
                )
            parts.append(_constant(_ESCAPES[escape]))
        else:
            parts.append(_constant(token[0].encode(errors="surrogateescape")))
    return lambda record: b"".join([part(record) for part in parts])


def _constant(data: bytes) -> Callable[[Row], bytes]:
    return lambda _record: data


def _letters(shown: Shown) -> dict[str, Callable[[Row], bytes]]:
    def blob(data: Any) -> bytes:
        return b"" if data is None else shown(data)

    def size(data: Any) -> bytes:
        return b"%d" % (-1 if data is None else len(data))

    def headers(record: Row) -> bytes:
        return b",".join(shown(name.encode()) + b"=" + shown(value) for name, value in record.headers)

    return {
        "t": lambda record: record.topic.encode(),
        "p": lambda record: b"%d" % record.partition,
        "o": lambda record: b"%d" % record.offset,
        "k": lambda record: blob(record.key),
        "s": lambda record: blob(record.value),
        "v": lambda record: blob(record.value),
        "T": lambda record: b"%d" % record.timestamp_ms,
        "h": headers,
        "K": lambda record: size(record.key),
        "S": lambda record: size(record.value),
    }
