"""Orders summed up by minute, and none may be late: those that are do not count."""

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTopic, Watermark

pipeline = Pipeline(
    name="loses-late",
    source=FromTopic(
        "orders",
        Json("id string, product string, price double, at timestamp"),
        watermark=Watermark("at", "0 seconds"),
    ),
    transform="""
        SELECT product, window.start AS minute, count(*) AS orders
        FROM orders GROUP BY product, window(at, '1 minute')
    """,
    sink=ToTopic("sums", key="product"),
)
