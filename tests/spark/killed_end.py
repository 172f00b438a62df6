"""A driver that decides a batch, and is killed in the middle of its end at one kind of sink.

python -m tests.spark.killed_end BOOTSTRAP QUERY RUN WORK KIND, of which WORK is the batch as JSON
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

import msgspec
from sqlalchemy.orm import Session

from tests.spark.sink_tasks import Moment
from tidelog.spark.outputs.delta_log import DeltaLog
from tidelog.spark.outputs.sqlite_table import SqliteKind
from tidelog.spark.outputs.storage import Storage
from tidelog.spark.sink.sink_batch import BatchWork
from tidelog.spark.sink.sink_committer import SinkCommitter
from tidelog.spark.sink.sink_participant import SinkIdentity

PLACES: dict[str, tuple[type, str, Moment]] = {
    # The new metadata is written, and the catalog does not name it.
    "iceberg": (Session, "commit", Moment.BEFORE),
    # The table has the batch, and nobody has heard of it.
    "delta": (DeltaLog, "add", Moment.AFTER),
    # The row of `tidelog_batches` and all rows are in a transaction that is open.
    "sqlite": (SqliteKind, "clear", Moment.BEFORE),
    # One file has its name, and the others do not.
    "files": (Storage, "move", Moment.AFTER),
}


def die_at(kind: str) -> None:
    owner, method, moment = PLACES[kind]
    function = getattr(owner, method)

    def deadly(*arguments: Any, **more: Any) -> None:
        if moment is Moment.AFTER:
            function(*arguments, **more)
        os.kill(os.getpid(), signal.SIGKILL)

    setattr(owner, method, deadly)


def main() -> None:
    bootstrap, query, run, work, kind = sys.argv[1:]
    batch = msgspec.json.decode(work, type=BatchWork)
    die_at(kind)
    SinkCommitter(SinkIdentity(query), run, {"bootstrap_servers": bootstrap}).commit(batch)


if __name__ == "__main__":
    main()
