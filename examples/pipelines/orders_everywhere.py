"""Orders into a Delta table, a database that has the last one of each product, and a topic: each batch in all of them or in none.

pip install 'tidelog[delta]'
tidelog up
tidelog pipeline run examples/pipelines/orders_everywhere.py
tidelog pipeline audit orders-everywhere --verify
"""

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToDatabase, ToTable, ToTopic

pipeline = Pipeline(
    name="orders-everywhere",
    source=FromTopic("orders", Json("id string, product string, price double, at timestamp")),
    sink=[
        ToTable("tables/every_order", format="delta"),
        ToDatabase("sqlite:///tables/shop.db", table="last_orders", merge_on=["product"], sequence_by="at"),
        ToTopic("expensive-orders", key="id", where="price >= 100"),
    ],
)
