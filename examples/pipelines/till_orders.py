"""Orders of the tills of all shops into a table; what is not as expected is set apart, to be sent again once that is mended.

tidelog up
tidelog pipeline run examples/pipelines/till_orders.py
tidelog pipeline replay-dead-letters examples/pipelines/till_orders.py --execute
"""

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTable

pipeline = Pipeline(
    name="till-orders",
    source=FromTopic(
        "till.orders",
        Json("id string, product string, price double"),
        name="orders",
        expect={"an order has an id": "id IS NOT NULL", "an order costs something": "price > 0"},
        dead_letters="till.orders.dead",
    ),
    transform="SELECT id, product, price FROM orders",
    sink=ToTable("tables/till_orders", format="delta"),
)
