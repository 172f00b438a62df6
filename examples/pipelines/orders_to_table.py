"""Orders into a Parquet table by day, broken ones into a topic of their own.

tidelog up
tidelog pipeline run examples/pipelines/orders_to_table.py
"""

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTable

pipeline = Pipeline(
    name="orders-to-table",
    source=FromTopic(
        "orders",
        Json("id string, product string, price double, at timestamp"),
        expect={"an order has an id": "id is not null", "the price is not negative": "price >= 0"},
        dead_letters="orders.dead",
    ),
    transform="""
        SELECT id, product, price, at, date(at) AS day, record.partition, record.offset
        FROM orders
    """,
    sink=ToTable("tables/orders", partition_by=["day"]),
)
