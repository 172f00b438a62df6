"""How far queries of Spark are, for people and for Prometheus: lag in records and in time, rows, batches, state.

    from tidelog.spark.watching import QueryListener

    listener = QueryListener(metrics_port=9405)
    spark.streams.addListener(listener)

docs/spark.md has the whole story.
"""

from tidelog.spark.watching.query_listener import QueryListener

__all__ = ["QueryListener"]
