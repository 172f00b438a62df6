"""A table of PostgreSQL as a Delta table and in SQLite, by the change events that Debezium has written of it.

tidelog up
tidelog produce shop.public.customers --from-json --partition 0 examples/pipelines/customers.events.jsonl
tidelog pipeline run examples/pipelines/customers.py --until-caught-up

The events are Debezium's own, of a few inserts, updates and deletes. A database of yours comes by a connector in their place.
"""

from tidelog.spark.pipelines import Debezium, FromTopic, Pipeline, ToDatabase, ToTable

pipeline = Pipeline(
    name="customers",
    source=FromTopic(
        "shop.public.customers",
        Debezium("id int, name string, email string, phone string"),
        name="events",
        dead_letters="customers.dead",
        options={"maxOffsetsPerTrigger": 1_000_000},
    ),
    transform="SELECT id, name, email, phone, __op AS op, __position AS position, __unchanged FROM events",
    sink=[
        ToTable(
            "tables/customers",
            name="lake",
            format="delta",
            merge_on=["id"],
            sequence_by="position",
            deletes="op = 'd'",
        ),
        ToDatabase(
            "sqlite:///customers.db",
            table="customers",
            merge_on=["id"],
            sequence_by="position",
            deletes="op = 'd'",
        ),
    ],
)
