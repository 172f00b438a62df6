"""Files with pipelines in SQL: the same pipelines as in Python, and mistakes with their lines, all at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.command_line import tidelog
from tidelog.spark.pipelines import (
    Avro,
    Expect,
    FromTopic,
    Json,
    Pipeline,
    Protobuf,
    Registry,
    ToDatabase,
    ToFiles,
    ToTopic,
    View,
    Watermark,
)
from tidelog.spark.pipelines.errors import PipelineFileError
from tidelog.spark.pipelines.pipeline_file import load_pipelines
from tidelog.spark.pipelines.validation import problems_of

SHOP = """
-- What the shop sells.
/* pipeline
name = "shop"
output_mode = "update"
spark = { "spark.sql.shuffle.partitions" = 2 }

[[source]]
topic = "orders"
decode = { format = "json", schema = "id string, price double, at timestamp" }
watermark = { column = "at", delay = "2 minutes" }
dead_letters = "orders.bad"

[source.expect]
"the price is not negative" = "price >= 0"
"an order has an id" = { condition = "id IS NOT NULL", action = "drop" }

[[source]]
topic = "payments"
name = "paid"
decode = { format = "avro", subject = "payments-value", registry = { url = "http://r:8081", user = "u", password = "${env:P}" } }

[view.clean]
expect = { "it is dear" = { condition = "price > 1", action = "warn" } }

[[sink]]
to = "topic"
topic = "out"
key = "id"

[[sink]]
to = "database"
url = "sqlite:///shop.db"
table = "clean"
merge_on = ["id"]
of = "clean"
*/

CREATE VIEW clean AS
    SELECT id, price /* ; */, ';' AS mark FROM orders;

CREATE VIEW `both` AS SELECT * FROM clean JOIN paid USING (id);

SELECT id, count(*) AS n FROM both GROUP BY id;  -- the end

/* pipeline
name = "copy"
[[source]]
topic = "t"
decode = { format = "protobuf", message = "Order", descriptor_set = "order.desc" }
[[sink]]
to = "files"
path = "copy"
*/
"""


def written(directory: Path, text: str) -> Path:
    path = directory / "shop.sql"
    path.write_text(text)
    return path


def test_a_file_in_sql_declares_what_one_in_python_does(tmp_path: Path) -> None:
    (tmp_path / "order.desc").write_bytes(b"\x0a")
    shop = Pipeline(
        name="shop",
        output_mode="update",
        spark={"spark.sql.shuffle.partitions": 2},
        source=[
            FromTopic(
                "orders",
                Json("id string, price double, at timestamp"),
                watermark=Watermark("at", "2 minutes"),
                dead_letters="orders.bad",
                expect={
                    "the price is not negative": "price >= 0",
                    "an order has an id": Expect("id IS NOT NULL", "drop"),
                },
            ),
            FromTopic(
                "payments",
                Avro(subject="payments-value", registry=Registry("http://r:8081", user="u", password="${env:P}")),
                name="paid",
            ),
        ],
        views=[
            View(
                "clean",
                "SELECT id, price /* ; */, ';' AS mark FROM orders",
                expect={"it is dear": Expect("price > 1", "warn")},
            ),
            View("both", "SELECT * FROM clean JOIN paid USING (id)"),
        ],
        transform="SELECT id, count(*) AS n FROM both GROUP BY id",
        sink=[
            ToTopic("out", key="id"),
            ToDatabase("sqlite:///shop.db", table="clean", merge_on=["id"], of="clean"),
        ],
    )
    copy = Pipeline(name="copy", source=FromTopic("t", Protobuf("Order", b"\x0a")), sink=ToFiles("copy"))

    file = load_pipelines(written(tmp_path, SHOP))

    assert file.pipelines == [shop, copy]
    assert file.modules == []
    assert problems_of(file.pipelines[:1]) == []
    assert [each.name for each in load_pipelines(file.path, ["copy"]).pipelines] == ["copy"]


def test_every_mistake_of_a_file_in_sql_is_told_at_once_with_its_line(tmp_path: Path) -> None:
    text = """SELECT 1;
/* pipeline
nam = "p"

[[source]]
topic = "t"
decode = { format = "jsn" }
watermark = { column = "at" }

[source.expect]
x = { condtion = "true" }

[[sink]]
to = "topc"

[view.clear]
dead_letters = "d"
*/
INSERT INTO clean SELECT 1;
CREATE VIEW AS SELECT 1;
SELECT 1;
SELECT 2;
/* pipeline
name = "q
*/
/* pipeline
name = "r"
[[sink]]
to = "topic"
*/
SELECT 'a
"""

    result = tidelog("pipeline", "validate", written(tmp_path, text), "--without-spark")

    place = str(tmp_path / "shop.sql")
    assert result.exit_code == 2
    assert result.stderr.replace(place, "").splitlines() == [
        f"tidelog pipeline: , line {line}: {sentence}"
        for line, sentence in (
            (31, "a text begins here, and does not end"),
            (1, "a pipeline begins with its header, a comment /* pipeline ... */"),
            (19, "INSERT begins no statement that a pipeline has: CREATE VIEW name AS SELECT ..., and a last SELECT"),
            (20, "CREATE begins no statement that a pipeline has: CREATE VIEW name AS SELECT ..., and a last SELECT"),
            (22, "a SELECT goes before this, and is the last statement: it is what the transformation makes"),
            (16, "there is no CREATE VIEW clear"),
            (7, "decode needs format=, which is json, avro, protobuf, text, debezium; it is 'jsn'"),
            (8, "Watermark needs delay="),
            (11, "Expect has no field condtion; did you mean condition?"),
            (11, "Expect needs condition="),
            (14, "a sink needs to=, which is topic, table, files, database; it is 'topc'"),
            (3, "Pipeline has no field nam; did you mean name?"),
            (2, "Pipeline needs name="),
            (24, "the header is no TOML: Illegal character '\\n'"),
            (26, "a pipeline has at least one [[source]]"),
            (28, "ToTopic needs topic="),
        )
    ]


@pytest.mark.parametrize("text", ["", "-- nothing\n", "/* a comment */\nSELECT 1;"])
def test_a_file_without_a_header_has_no_pipeline(tmp_path: Path, text: str) -> None:
    with pytest.raises(PipelineFileError, match=r"line \d: a pipeline begins with its header"):
        load_pipelines(written(tmp_path, text))
