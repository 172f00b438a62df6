"""A topic kept for good as Parquet files: every record as it was, by day. `replay_archive.py` is the way back.

tidelog up
tidelog pipeline run examples/pipelines/archive.py
"""

from tidelog.spark.pipelines import FromTopic, Pipeline, ToFiles

pipeline = Pipeline(
    name="archive",
    source=FromTopic("orders", options={"includeHeaders": True, "maxOffsetsPerTrigger": 5_000_000}),
    transform="""
        SELECT date(record.timestamp) AS day, record.partition, record.offset, record.timestamp,
            record.key, record.value, record.headers
        FROM orders
    """,
    sink=ToFiles("tables/archive", partition_by=["day"]),
    # A file for each minute and partition: seldom enough for files that are worth opening.
    trigger="1 minute",
    # What a day is must not depend on the machine.
    spark={"spark.sql.session.timeZone": "UTC"},
)
