"""What becomes of filters that a Python data source takes over: why `tidelog` takes none.

python -m benchmarks.spark_filters

It needs PySpark and Java and nothing of Tidelog's, so that it runs with any release of Spark from 4.1 on. One line for each fact,
measured with a source of ten rows that reads what is pushed to it, and says so:

    default settings     whether a source with `pushFilters` can be read at all
    allowed              whether the filter is pushed once the configuration allows it
    a later read         how many of the ten rows a count without a filter finds afterwards, on the same DataFrame
    another DataFrame    the same on one that was loaded anew
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

ROWS = 10
ALLOWED = "spark.sql.python.filterPushdown.enabled"


class FilteredReader(DataSourceReader):
    """Takes over every filter, as if it were `id >= 7`."""

    def __init__(self) -> None:
        self._first = 0

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        self._first = 7 if filters else 0
        return []

    def read(self, partition: InputPartition) -> Iterator[tuple[int]]:  # noqa: ARG002 - Spark's
        return ((number,) for number in range(self._first, ROWS))


class FilteredSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "filtered"

    def schema(self) -> str:
        return "id long"

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - Spark's
        return FilteredReader()


def measure(spark: SparkSession) -> dict[str, str]:
    """What was found, by fact."""
    spark.dataSource.register(FilteredSource)

    def loaded() -> DataFrame:
        return spark.read.format("filtered").load()

    found = {"default settings": _outcome(lambda: loaded().count())}
    spark.conf.set(ALLOWED, "true")
    frame = loaded()
    found["allowed, with a filter"] = _outcome(lambda: frame.where("id >= 7").count())
    found["a later read without one, same DataFrame"] = _outcome(frame.count)
    found["another DataFrame without one"] = _outcome(lambda: loaded().count())
    return found


def _outcome(count: Callable[[], int]) -> str:
    try:
        return f"{count()} of {ROWS} rows"
    except PySparkException as error:
        # The last line of Python's own trace says it.
        said = [line for line in str(error).splitlines() if "Error: " in line] or str(error).splitlines()
        return f"fails: {said[-1].strip()[:200]}"


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    try:
        found = measure(spark)
    finally:
        spark.stop()
    print(f"PySpark {pyspark.__version__}")
    for fact, outcome in found.items():
        print(f"  {fact:<42} {outcome}")


if __name__ == "__main__":
    main()
