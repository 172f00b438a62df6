"""A gate for data: what is as expected goes on to everybody's topic, what is not is kept where somebody looks at it.

tidelog up
tidelog pipeline run examples/pipelines/quality_gate.py
tidelog consume orders.quarantine --headers --follow
"""

from tidelog.spark.pipelines import Expect, FromTopic, Json, Pipeline, ToTopic

pipeline = Pipeline(
    name="quality-gate",
    source=FromTopic(
        "orders.raw",
        Json("id string, product string, price double, currency string, at timestamp"),
        name="orders",
        expect={
            # A text alone means quarantine.
            "an order has an id": "id IS NOT NULL",
            "the price is not negative": "price >= 0",
            "it is not from the future": "at <= record.timestamp + INTERVAL 1 HOUR",
            "it is no trial of a till's": Expect("product <> 'test'", "drop"),
            "it is a usual price": Expect("price < 1000", "warn"),
            # Dollars that are added up as euros would be worse than a pipeline that stands still.
            "it is paid in euros": Expect("currency = 'EUR'", "fail"),
        },
        dead_letters="orders.quarantine",
    ),
    transform="SELECT id, product, price, at FROM orders",
    sink=ToTopic("orders.clean", key="id"),
)
