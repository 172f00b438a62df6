"""Orders with their payments; one that nobody has paid within an hour comes out without a payment.

tidelog up
tidelog pipeline run examples/pipelines/paid_orders.py
tidelog consume orders.unpaid --follow
"""

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTable, ToTopic, Watermark

pipeline = Pipeline(
    name="paid-orders",
    source=[
        FromTopic(
            "orders",
            Json("id string, product string, price double, at timestamp"),
            watermark=Watermark("at", "10 minutes"),
        ),
        FromTopic(
            "payments",
            Json("order_id string, amount double, paid_at timestamp"),
            watermark=Watermark("paid_at", "10 minutes"),
        ),
    ],
    transform="""
        SELECT id, product, price, at, amount, paid_at
        FROM orders LEFT JOIN payments
        ON order_id = id AND paid_at BETWEEN at AND at + INTERVAL 1 HOUR
    """,
    sink=[
        ToTable("tables/paid", format="delta", where="paid_at IS NOT NULL"),
        ToTopic("orders.unpaid", key="id", where="paid_at IS NULL"),
    ],
)
