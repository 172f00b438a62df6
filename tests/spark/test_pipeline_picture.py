"""The graph of a pipeline and how far behind it was: boxes that do not overlap, an SVG that is one, a tree on the terminal."""

from __future__ import annotations

import re
from itertools import combinations
from pathlib import Path
from typing import NoReturn
from xml.etree import ElementTree as ET

import pytest

from tests.support.command_line import tidelog
from tests.support.documents import ROOT
from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToDatabase, ToFiles, ToTable, ToTopic, View, Watermark
from tidelog.spark.pipelines.checkpoint_files import CheckpointFiles
from tidelog.spark.pipelines.picture.graph import Graph, Node, graph_of
from tidelog.spark.pipelines.picture.lag_chart import amount, blocks, duration
from tidelog.spark.pipelines.picture.layout import layout_of
from tidelog.spark.pipelines.picture.pipeline_picture import ShownPipeline, ShownQuery, picture_of
from tidelog.spark.pipelines.picture.pipeline_text import lines_of
from tidelog.spark.pipelines.progress import PipelineProgress, QueryProgress, write_history, write_progress
from tidelog.spark.watching.lag_history import LagSample, PipelineHistory, QueryHistory

SVG = "{http://www.w3.org/2000/svg}"
START_MS = 1_794_988_800_000
SECRET = "a-secret-that-nobody-may-see"


def joined(*_: object) -> NoReturn:
    raise AssertionError("a picture runs nothing")


WIDE = Pipeline(
    name="paid & <others>",
    source=[
        FromTopic(
            "orders",
            Json("id string, at timestamp"),
            expect={"an id": "id is not null"},
            dead_letters="bad",
            watermark=Watermark("at", "2 minutes"),
        ),
        FromTopic("payments", Json("id string"), dead_letters="bad", name="paid"),
        FromTopic("orders", name="again"),
    ],
    transform=joined,
    sink=[
        ToTable("tables/orders", format="delta", merge_on=["id"], history=True),
        ToTable(name="shop.orders", format="iceberg", catalog={"type": "rest", "token": SECRET}),
        ToDatabase(f"postgresql://me:{SECRET}@db/shop", table="latest", merge_on=["id"], sequence_by="at"),
        ToFiles("tables/cheap", where="price < 2", partition_by=["product"]),
        ToTopic("a topic with a name\x00 that is much too long for any box of a picture", key="id"),
    ],
    trigger="10 seconds",
    bootstrap="one:9092,two:9092",
)


def samples(*lags: int) -> tuple[LagSample, ...]:
    return tuple(LagSample(START_MS + 1000 * index, lag, 10 * lag, 1) for index, lag in enumerate(lags))


def test_a_graph_says_what_is_read_made_and_written_and_no_secret() -> None:
    graph = graph_of(WIDE)

    assert [(each.kind, each.title) for each in graph.nodes] == [
        ("topic", "orders"),
        ("source", "orders"),
        ("topic", "payments"),
        ("source", "paid"),
        ("source", "again"),
        ("transform", "joined()"),
        ("sink", "orders"),
        ("sink", "shop.orders"),
        ("sink", "latest"),
        ("sink", "cheap"),
        ("sink", WIDE.sinks[4].label),
        ("dead letters", "bad"),
    ]
    assert set(graph.edges) == {
        *((0, 1), (2, 3), (0, 4)),
        *((1, 5), (3, 5), (4, 5)),
        *((5, index) for index in range(6, 11)),
        *((1, 11), (3, 11)),
    }
    about = {each.title: list(each.about) for each in graph.nodes if each.kind != "topic"}
    assert about["again"] == ["records as they are"]
    assert about["joined()"] == ["append mode", "every 10 seconds"]
    assert about["shop.orders"] == ["Iceberg REST table", "rows are added"]
    assert about["latest"] == ["PostgreSQL table", "merged by id"]
    assert about["cheap"] == ["Parquet files", "by product", "where price < 2"]
    assert graph.nodes[0].about == ("topic at one:9092, ...",)
    assert SECRET not in str(graph)


def test_views_are_steps_between_and_a_sink_hangs_on_what_it_takes_from() -> None:
    pipeline = Pipeline(
        name="p",
        source=FromTopic("orders", Json("id string"), dead_letters="bad"),
        views=[
            View("totals", "SELECT count(*) FROM clean"),
            View("clean", "SELECT * FROM orders", expect={"an id": "id IS NOT NULL"}, dead_letters="bad"),
        ],
        transform="SELECT * FROM totals JOIN clean",
        sink=[ToTopic("out"), ToFiles("all", of="clean")],
    )

    graph = graph_of(pipeline)

    titles = [each.title for each in graph.nodes]
    assert titles == ["orders", "orders", "clean", "totals", "SQL", "out", "all", "bad"]
    assert graph.nodes[2].about == ("view in SQL", "1 expectation")
    assert set(graph.edges) == {(0, 1), (1, 2), (2, 3), (2, 4), (3, 4), (4, 5), (2, 6), (1, 7), (2, 7)}


def test_no_two_boxes_touch_and_no_line_runs_through_one() -> None:
    graph = graph_of(WIDE)
    layout = layout_of(graph)

    for one, other in combinations(layout.boxes, 2):
        apart = (
            one.x + one.width < other.x
            or other.x + other.width < one.x
            or one.y + one.height < other.y
            or other.y + other.height < one.y
        )
        assert apart, (one, other)
    assert all(each.x >= 0 and each.x + each.width <= layout.width for each in layout.boxes)
    assert all(each.y >= 0 and each.y + each.height <= layout.height for each in layout.boxes)
    for (origin, target), path in zip(graph.edges, layout.paths, strict=True):
        for index, box in enumerate(layout.boxes):
            if index not in {origin, target}:
                # Within the columns a line is level, at the height of one of its points.
                assert not any(box.x <= x <= box.x + box.width and box.y <= y <= box.y + box.height for x, y in path)


def test_lines_are_put_in_an_order_in_which_they_do_not_cross() -> None:
    nodes = [Node("topic", str(index)) for index in range(4)] + [Node("sink", str(index)) for index in range(4)]
    layout = layout_of(Graph("crossed", nodes, [(index, 7 - index) for index in range(4)]))

    assert all(path[0][1] == path[-1][1] for path in layout.paths), "each sink is beside its topic"


def test_a_picture_is_an_svg_that_shows_all_of_it_on_light_and_on_dark() -> None:
    shown = ShownPipeline(
        graph_of(WIDE),
        [
            ShownQuery("paid", "running", samples(0, 700, 20_000, 31)),
            ShownQuery("paid.dead-letters", "failed", samples(5)),
            ShownQuery("none", "never run", ()),
        ],
    )
    text = picture_of([shown, shown])
    root = ET.fromstring(text)

    said = [each.text or "" for each in root.iter(f"{SVG}text")]
    for expected in (
        "paid & <others>",
        "Delta table",
        "history by id",
        "bad",
        "paid: running",
        "20k",
        "paid.dead-letters: failed",
    ):
        assert said.count(expected) == 2, expected
    assert "31 records unread, 310 ms behind; 20,000 at worst" in said
    assert any(each.startswith("a topic with a name") and each.endswith("…") for each in said)
    # Whoever points at it reads the whole name.
    assert any("much too long for any box" in (each.text or "") for each in root.iter(f"{SVG}title"))
    assert "prefers-color-scheme: dark" in text
    styles = set(re.findall(r"\.([\w-]+) \{", text))
    used = {name for each in root.iter() for name in (each.get("class") or "").split()}
    assert used <= styles
    width, height = float(root.get("width") or 0), float(root.get("height") or 0)
    for each in root.iter(f"{SVG}rect"):
        assert float(each.get("x") or 0) + float(each.get("width") or 0) <= width
        assert float(each.get("y") or 0) + float(each.get("height") or 0) <= height
    assert SECRET not in text


def test_a_tree_has_a_line_for_each_box_and_what_has_several_origins_once() -> None:
    lines = list(lines_of(ShownPipeline(graph_of(WIDE), [ShownQuery("paid", "running", samples(0, 4, 2))])))

    assert lines[:4] == [
        "paid & <others>",
        "  orders  topic at one:9092, ...",
        "  ├─ orders  JSON, late after 2 minutes, 1 expectation",
        "  │  ├─ joined()  append mode, every 10 seconds",
    ]
    assert "     ├─ joined() (above)" in lines
    assert "     └─ bad (above)" in lines
    assert lines[-4] == ""
    assert lines[-3] == "paid: running, 2 records unread, 20 ms behind"
    assert lines[-2].strip().startswith("▁")
    assert lines[-2].endswith("4 at worst")
    (last,) = list(lines_of(ShownPipeline(graph_of(WIDE), [ShownQuery("paid", "never run", ())])))[-1:]
    assert last == "paid: never run, and has not said yet how far behind it is"


def test_lag_in_blocks_and_amounts_as_people_say_them() -> None:
    assert blocks(samples(0, 1, 2, 3, 4, 5, 6, 7), 8) == "▁▂▃▄▅▆▇█"
    assert blocks(samples(0, 0, 0, 7, 0, 0, 0, 0), 4) == "▁█▁▁", "the worst of each part"
    assert blocks((samples(7)[0], LagSample(START_MS + 9000, 0, None, 0)), 4) == "███▁", (
        "as it was, until something is told"
    )
    assert blocks(samples(0), 3) == "▁▁▁"
    assert [amount(each) for each in (0, 0.5, 999, 1500, 2e6, 3e9)] == ["0", "0.5", "999", "1.5k", "2M", "3G"]
    assert [duration(each) for each in (5, 1500, 90_000, 7_200_000, 172_800_000)] == [
        "5 ms",
        "1.5 s",
        "1.5 min",
        "2 h",
        "2 d",
    ]


def test_show_draws_what_the_last_run_has_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "jobs.py"
    file.write_text(
        "from tidelog.spark.pipelines import FromTopic, Pipeline, ToTable, ToTopic\n"
        'a = Pipeline(name="a", source=FromTopic("t", dead_letters="d"), sink=ToTable("u"))\n'
        'b = Pipeline(name="b", source=FromTopic("t"), sink=ToTopic("v", encode="columns"))\n'
    )
    files = CheckpointFiles.at(str(tmp_path / "checkpoints" / "a"), {})
    query = QueryProgress(query="a", query_id="q", run_id="r", state="running")
    write_progress(files, PipelineProgress(pipeline="a", host="elsewhere", pid=1, queries=(query,)))
    write_history(files, PipelineHistory((QueryHistory(query="a", samples=samples(3, 9)),)))

    told = tidelog("pipeline", "show", file)
    assert told.exit_code == 0
    assert "a: running, 9 records unread, 90 ms behind" in told.stdout
    assert "a.dead-letters: never run, and has not said yet how far behind it is" in told.stdout
    assert "\nb\n  t  topic at 127.0.0.1:9092\n" in told.stdout
    moved = tidelog("pipeline", "show", file, "--only", "b", "--bootstrap", "elsewhere:9092")
    assert moved.stdout.startswith("b\n  t  topic at elsewhere:9092\n")

    drawn = tidelog("pipeline", "show", file, "--svg", "out.svg")
    assert (drawn.exit_code, drawn.stdout) == (0, "out.svg shows a, b\n")
    assert "a: running" in (tmp_path / "out.svg").read_text()
    refused = tidelog("pipeline", "show", file, "--svg", "no/such/place.svg")
    assert refused.exit_code == 1
    assert refused.stderr == "tidelog pipeline: no/such/place.svg cannot be written: No such file or directory\n"


def test_what_nobody_could_see_is_not_drawn_and_mistakes_are_told(tmp_path: Path) -> None:
    file = tmp_path / "jobs.py"
    head = "from tidelog.spark.pipelines import FromTopic, Pipeline, ToTopic\n"
    file.write_text(
        head + 'p = Pipeline(name="p", source=FromTopic("t"), sink=[ToTopic(f"t{n}") for n in range(400)])\n'
    )
    assert tidelog("pipeline", "show", file).stderr == (
        f"tidelog pipeline: {file} has 402 sources, steps and sinks, and a picture has 300 at most: choose with --only\n"
    )
    file.write_text(head + 'p = Pipeline(name="p", source=FromTopic(5), sink=ToTopic("t"))\n')
    wrong = tidelog("pipeline", "show", file)
    assert (wrong.exit_code, wrong.stdout) == (2, "")
    assert wrong.stderr.startswith("tidelog pipeline: p: source: ")


def test_the_picture_of_the_document_is_that_of_its_sample(tmp_path: Path) -> None:
    """Draw it again: tidelog pipeline show FILE --svg docs/images/pipeline.svg."""
    page = (ROOT / "docs" / "pipelines.md").read_text()
    sample = page.split("<!-- test: file revenue.py -->\n```python\n", 1)[1].split("```", 1)[0]
    (tmp_path / "revenue.py").write_text(sample)

    assert tidelog("pipeline", "show", tmp_path / "revenue.py", "--svg", tmp_path / "out.svg").exit_code == 0
    assert (tmp_path / "out.svg").read_text() == (ROOT / "docs" / "images" / "pipeline.svg").read_text()
