"""Revenue per product and minute, from a topic into a topic, each order counted once.

tidelog up
tidelog pipeline run examples/pipelines/revenue.py
tidelog consume revenue --follow
"""

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTopic, Watermark

pipeline = Pipeline(
    name="revenue",
    source=FromTopic(
        "orders",
        Json("id string, product string, price double, at timestamp"),
        watermark=Watermark("at", "2 minutes"),
        dead_letters="orders.broken",
    ),
    transform="""
        SELECT product, window.start AS minute, count(*) AS orders, sum(price) AS revenue
        FROM orders
        GROUP BY product, window(at, '1 minute')
    """,
    sink=ToTopic("revenue", key="product"),
)
