"""Where Spark looks: it imports every package whose name begins with `pyspark_`, and registers its `DefaultSource`.

That makes `format("tidelog")` known to every session without a call to `spark.dataSource.register`.
"""

from __future__ import annotations

from tidelog.spark.source.source import TidelogSource as DefaultSource

__all__ = ["DefaultSource"]
