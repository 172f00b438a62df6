"""Records as a file: JSON lines, CSV, Parquet. Written as they are read: no file is held in memory, but for one page of it.

JSON and CSV have keys and values as people read them, with their format beside them; Parquet has them as bytes. In CSV a field
that begins as a formula does gets an apostrophe before it, so that no spreadsheet computes what somebody produced.
"""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator
from typing import Any

from tidelog.console.records.record_reading import Row, shown_row
from tidelog.console.records.value_text import WHOLE_MAX, ValueDecoder
from tidelog.console.serving.answers import json_bytes
from tidelog.console.serving.api_error import ApiError

MEDIA_TYPES = {
    "json": "application/x-ndjson",
    "csv": "text/csv; charset=utf-8",
    "parquet": "application/vnd.apache.parquet",
}

Pages = AsyncIterator[list[Row]]

_COLUMNS = ("partition", "offset", "timestamp_ms", "key", "key_format", "value", "value_format", "headers")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")


async def exported(kind: str, pages: Pages, decoder: ValueDecoder, form: str) -> AsyncIterator[bytes]:
    """The file in pieces. ApiError where a package is missing for it."""
    if kind == "parquet":
        return _parquet(pages, _arrow())
    return _csv(pages, decoder, form) if kind == "csv" else _json(pages, decoder, form)


async def _json(pages: Pages, decoder: ValueDecoder, form: str) -> AsyncIterator[bytes]:
    async for rows in pages:
        lines = [json_bytes(await shown_row(decoder, row, form, WHOLE_MAX)) + b"\n" for row in rows]
        yield b"".join(lines)


async def _csv(pages: Pages, decoder: ValueDecoder, form: str) -> AsyncIterator[bytes]:
    yield _csv_lines([_COLUMNS])
    async for rows in pages:
        lines = []
        for row in rows:
            shown = await shown_row(decoder, row, form, WHOLE_MAX)
            key, value = shown["key"], shown["value"]
            headers = {name: None if each is None else each["text"] for name, each in shown["headers"]}
            lines.append(
                (
                    row.partition,
                    row.offset,
                    shown["timestamp_ms"],
                    "" if key is None else _cell(key["text"]),
                    "null" if key is None else key["format"],
                    "" if value is None else _cell(value["text"]),
                    "null" if value is None else value["format"],
                    _cell(json_bytes(headers).decode()) if headers else "",
                )
            )
        yield _csv_lines(lines)


def _cell(text: str) -> str:
    return f"'{text}" if text.startswith(_FORMULA_STARTS) else text


def _csv_lines(rows: list[Any]) -> bytes:
    written = io.StringIO()
    csv.writer(written, lineterminator="\n").writerows(rows)
    return written.getvalue().encode(errors="replace")


def _arrow() -> Any:
    try:
        import pyarrow as pa  # noqa: PLC0415 - the extra arrow
        import pyarrow.parquet  # noqa: PLC0415
    except ImportError:
        raise ApiError(
            501,
            "MISSING_EXTRA",
            "Parquet needs pyarrow, which is not installed",
            "`pip install 'tidelog[arrow]'`, or export JSON",
        ) from None
    return pa


async def _parquet(pages: Pages, pa: Any) -> AsyncIterator[bytes]:
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    schema = pa.schema(
        [
            ("partition", pa.int32()),
            ("offset", pa.int64()),
            ("timestamp", pa.timestamp("ms", "UTC")),
            ("key", pa.binary()),
            ("value", pa.binary()),
            ("headers", pa.list_(header)),
        ]
    )
    sink = _Pieces()
    writer = pa.parquet.ParquetWriter(pa.PythonFile(sink, mode="w"), schema, compression="zstd")
    async for rows in pages:
        if rows:
            columns = [
                [row.partition for row in rows],
                [row.offset for row in rows],
                [row.timestamp_ms if row.timestamp_ms >= 0 else None for row in rows],
                [row.key for row in rows],
                [row.value for row in rows],
                [[{"key": name, "value": value} for name, value in row.headers] for row in rows],
            ]
            arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        yield sink.taken()
    writer.close()
    yield sink.taken()


class _Pieces(io.RawIOBase):
    """A file that is handed on as it is written."""

    def __init__(self) -> None:
        super().__init__()
        self._pieces: list[bytes] = []
        self._position = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._position += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._position

    def taken(self) -> bytes:
        pieces, self._pieces = self._pieces, []
        return b"".join(pieces)
