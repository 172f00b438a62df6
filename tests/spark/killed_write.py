"""A stream that hangs in the commit of its second batch, for somebody to kill.

python -m tests.spark.killed_write BOOTSTRAP SOURCE TARGET DIRECTORY
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.spark.mortal_sink import END, Death, Manner, mortal_writer, rows_of
from tests.spark.sink_tasks import Moment
from tests.spark.topics import local_session, stopped


def main() -> None:
    bootstrap, source, target, directory = sys.argv[1:]
    spark = local_session(Path(directory))
    deaths = {1: Death(END, Moment.WITHIN, Manner.HANGS)}
    rows = rows_of(spark, bootstrap, source, batch_rows=10)
    stopped(mortal_writer(rows, bootstrap, target, Path(directory), deaths).start())


if __name__ == "__main__":
    main()
