"""Orders summed up by minute, and each of them in a table: a pipeline in which nothing is wrong."""

from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTable, ToTopic, Watermark

ORDER = Json("id string, product string, price double, at timestamp")

sums = Pipeline(
    name="sums",
    source=FromTopic("orders", ORDER, watermark=Watermark("at", "10 minutes"), dead_letters="orders.dead"),
    transform="""
        SELECT product, window.start AS minute, count(*) AS orders
        FROM orders GROUP BY product, window(at, '1 minute')
    """,
    sink=ToTopic("sums", key="product"),
)
copies = Pipeline(
    name="copies",
    source=FromTopic("orders", ORDER, dead_letters="orders.broken"),
    transform="SELECT id, product, price FROM orders",
    sink=[ToTable("tables/orders", format="delta"), ToTopic("checked", key="id")],
)
