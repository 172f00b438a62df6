"""One row of each record, where a record has become several. Arrow in, Arrow out.

The rows of a record lie side by side, as they were made: nothing has been shuffled since.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

_PLACE = ("topic", "partition", "offset")


def first_of_each_record(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """As Spark calls it in a task, for rows with a column `record`."""
    import pyarrow as pa  # noqa: PLC0415 - loaded by tasks that have rows

    last: tuple[Any, ...] | None = None
    for batch in batches:
        records: Any = batch.column("record")
        places = list(zip(*(records.field(name).to_pylist() for name in _PLACE), strict=True))
        firsts = [place != before for place, before in zip(places, [last, *places], strict=False)]
        last = places[-1] if places else last
        yield batch.filter(pa.array(firsts, pa.bool_()))
