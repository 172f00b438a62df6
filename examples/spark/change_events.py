"""Change events of a database's table, as a table of Parquet files that follows it.

    python -m examples.spark.change_events

Each record has the key of a row, and as its value the row as it is now; no value where it was deleted. A batch takes the table
as the one before it left it, applies its changes, and writes the table anew beside it: DIRECTORY/table/batch=7. A batch that
is run again after a crash writes the same once more. Readers take the last one that is whole; a large table would rather be
kept by Delta or Iceberg, with the same `foreachBatch` around a MERGE.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession, Window, functions as F  # noqa: N812 - as everybody calls them

from examples.spark.local import read_stream, run_alone, send
from tidelog.spark.decoding import from_json

CHANGES = "customers"
ROW = "id string, name string, city string"
KEPT = 2


class Table:
    """The table: one directory for each batch, of which the last that is whole counts."""

    def __init__(self, spark: SparkSession, directory: Path) -> None:
        self._spark = spark
        self._directory = directory

    def read(self, before: int | None = None) -> DataFrame:
        """The rows, now or as they were before a batch."""
        whole = [batch for batch in self._batches() if before is None or batch < before]
        if not whole:
            return self._spark.createDataFrame([], ROW)
        return self._spark.read.schema(ROW).parquet(str(self._path(whole[-1])))

    def apply(self, changes: DataFrame, batch: int) -> None:
        """What `foreachBatch` calls: the rows that did not change, and the last state of those that did."""
        newest = Window.partitionBy("key").orderBy(F.desc("offset"))
        last = changes.withColumn("age", F.row_number().over(newest)).where("age = 1")
        changed = last.select(F.col("key").cast("string").alias("id"), "value")
        kept = self.read(before=batch).join(changed, "id", "left_anti")
        new = changed.where("value is not null").select(from_json("value", ROW).alias("row")).select("row.*")
        kept.unionByName(new).coalesce(1).write.mode("overwrite").parquet(str(self._path(batch)))
        for old in self._batches()[:-KEPT]:
            shutil.rmtree(self._path(old))

    def _path(self, batch: int) -> Path:
        return self._directory / f"batch={batch}"

    def _batches(self) -> list[int]:
        # Spark writes this file when a directory is whole.
        return sorted(int(done.parent.name.removeprefix("batch=")) for done in self._directory.glob("batch=*/_SUCCESS"))


def follow(spark: SparkSession, bootstrap: str, directory: Path) -> Table:
    """Bring the table up to date with what the topic holds."""
    table = Table(spark, directory / "table")
    query = (
        read_stream(spark, bootstrap, CHANGES)
        .writeStream.foreachBatch(table.apply)
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return table


def example(spark: SparkSession, bootstrap: str, directory: Path) -> DataFrame:
    def customer(number: int, name: str, city: str) -> tuple[str, dict[str, object], int]:
        return (str(number), {"id": str(number), "name": name, "city": city}, 0)

    send(bootstrap, CHANGES, [customer(1, "Ann", "Bergen"), customer(2, "Bob", "Cork"), customer(1, "Ann", "Dover")])
    follow(spark, bootstrap, directory)
    send(bootstrap, CHANGES, [("2", None, 0), customer(3, "Cleo", "Essen"), customer(1, "Anna", "Dover")])
    return follow(spark, bootstrap, directory).read().orderBy("id")


if __name__ == "__main__":
    run_alone(example)
