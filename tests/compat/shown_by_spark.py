"""Reads, writes and streams over a login, as options hold its secret, and says where Spark shows one of some words.

python -m tests.compat.shown_by_spark DIRECTORY    standard input: {"login": {...}, "words": [...], "description": ...}

Looked through are all pages of Spark's UI, its REST API and the event log. `description` is that of the jobs.
"""

from __future__ import annotations

import html
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen
from uuid import uuid4

from pyspark.sql import SparkSession

from tests.spark.topics import local_session

PAGES = ("jobs", "stages", "storage", "environment", "executors", "SQL", "StreamingQuery")
QUESTIONS = ("environment", "sql?details=true&length=1000", "jobs", "stages?details=true", "allexecutors")
# Far more than there are.
PAGES_MAX = 500

_LINK = re.compile(r'href="(/(?:jobs|stages|SQL|StreamingQuery)/[^"#]*)"')


def run(spark: SparkSession, login: dict[str, str], directory: Path) -> None:
    rows = spark.range(10).selectExpr("CAST(id AS STRING) AS value")
    out = f"out-{uuid4().hex}"
    rows.write.format("tidelog").mode("append").options(**login, topic=out).save()
    frame = spark.read.format("tidelog").options(**login, subscribe=out).load()
    assert len(frame.collect()) == 10
    frame.createOrReplaceTempView("rows")
    assert spark.sql("SELECT count(*) FROM rows").collect()[0][0] == 10
    streamed = spark.readStream.format("tidelog").options(**login, subscribe=out, startingOffsets="earliest").load()
    query = (
        streamed.select("value")
        .writeStream.format("tidelog")
        .options(**login, topic="again", checkpointLocation=str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert query.exception() is None


def shown(spark: SparkSession) -> Iterator[tuple[str, str]]:
    """Every page and answer with its name."""
    base, application = spark.sparkContext.uiWebUrl, spark.sparkContext.applicationId
    todo = [f"/api/v1/applications/{application}/{each}" for each in QUESTIONS] + [f"/{each}/" for each in PAGES]
    seen = set(todo)
    while todo:
        path = todo.pop()
        with urlopen(f"{base}{path}", timeout=30) as answer:
            text = html.unescape(answer.read().decode())
        yield path, text
        for link in map(html.unescape, _LINK.findall(text)):
            if link not in seen and "/kill" not in link and len(seen) < PAGES_MAX:
                seen.add(link)
                todo.append(link)


def main() -> None:
    directory = Path(sys.argv[1])
    asked = json.load(sys.stdin)
    log = directory / "events"
    log.mkdir()
    spark = local_session(
        directory,
        spark__ui__enabled="true",
        spark__ui__port="0",
        spark__eventLog__enabled="true",
        spark__eventLog__compress="false",
        spark__eventLog__dir=str(log),
    )
    spark.sparkContext.setJobDescription(asked["description"])
    run(spark, asked["login"], directory)
    texts = list(shown(spark))
    spark.stop()
    texts += [(f"event log {each.name}", each.read_text()) for each in log.rglob("events_*") if each.is_file()]
    print(json.dumps({word: [name for name, text in texts if word in text] for word in asked["words"]}))


if __name__ == "__main__":
    main()
