"""The table, the picture and the page's part of a run."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from benchmarks.broker.figures import OURS, THEIRS, Better, Figure, Goal, Measured, Results
from benchmarks.broker.picture import LABELS_WIDTH, WIDTH, picture
from benchmarks.broker.publication import BEGIN, END, PublicationError, publish
from benchmarks.broker.rows import all_figures
from benchmarks.broker.table import markdown_table, number, text_table

COST = Figure("cost_s", "CPU per GB <&>", "s", goal=Goal(1 / 4), is_pictured=True)
RATE = Figure("rate", "rate", "MB/s", Better.MORE, goal=Goal(3), is_pictured=True)
ALONE = Figure("alone_ms", "embedded", "ms", goal=Goal(150, is_absolute=True), is_pictured=True)
NAMESPACE = "{http://www.w3.org/2000/svg}"


@pytest.fixture
def results() -> Results:
    return Results(
        {"kafka": "4.3.1", "machine": "2 cores", "rounds": "3"},
        [
            Measured(COST, {OURS: [1.0, 1.0, 2.0], THEIRS: [10.0, 5.0, 10.0]}),
            Measured(RATE, {OURS: [200.0], THEIRS: [100.0]}),
            Measured(ALONE, {OURS: [44.0]}),
        ],
    )


@pytest.mark.parametrize(
    ("value", "said"),
    [(None, "–"), (0, "0"), (0.0042, "0.0042"), (0.474, "0.474"), (54.66, "54.7"), (13761.2, "13,761")],
)
def test_numbers_have_the_digits_that_matter(value: float | None, said: str) -> None:
    assert number(value) == said


def test_the_table_says_both_medians_the_ratio_its_spread_and_the_verdict(results: Results) -> None:
    _, _, cost, rate, alone = text_table(results).splitlines()

    assert " ".join(cost.split()) == "CPU per GB <&>, s 1 10 0.20 × 0.10 to 0.20 ≤ 1/4 × reached"
    assert " ".join(rate.split()) == "rate, MB/s 200 100 2.00 × 2.00 to 2.00 ≥ 3 × MISSED"
    assert " ".join(alone.split()) == "embedded, ms 44 – – ≤ 150 ms reached"


def test_every_line_of_the_markdown_has_the_same_columns(results: Results) -> None:
    lines = markdown_table(results).splitlines()

    assert len(lines) == 2 + 3
    assert {line.count("|") for line in lines} == {7}


def test_the_picture_is_well_formed_and_draws_the_ratio(results: Results) -> None:
    root = ET.fromstring(picture(results))

    bars = {
        name: [float(each.get("width", "0")) for each in root.iter(f"{NAMESPACE}rect") if each.get("class") == name][1:]
        for name in (OURS, THEIRS)
    }
    # The first of each is the legend's. The embedded cluster has nobody beside it and is left out.
    assert [round(ours / theirs, 2) for ours, theirs in zip(bars[OURS], bars[THEIRS], strict=True)] == [0.1, 2.0]
    texts = [each.text for each in root.iter(f"{NAMESPACE}text")]
    assert "CPU per GB <&>" in texts
    assert "5.0 × better" in texts
    assert "embedded" not in texts


def test_nothing_of_the_picture_lies_outside_of_it(results: Results) -> None:
    root = ET.fromstring(picture(results))
    height = float(root.get("height", "0"))

    for each in root.iter(f"{NAMESPACE}rect"):
        assert float(each.get("x", "0")) + float(each.get("width", "0")) <= WIDTH
        assert float(each.get("y", "0")) + float(each.get("height", "0")) <= height


def test_no_label_runs_into_the_bars() -> None:
    # What a letter of the picture's font takes on average, generously.
    letter_width = 6.6

    assert [each.what for each in all_figures() if len(each.what) * letter_width > LABELS_WIDTH] == []


def test_the_picture_has_colours_for_dark_pages(results: Results) -> None:
    assert "prefers-color-scheme: dark" in picture(results)


def test_a_worse_figure_is_called_worse() -> None:
    worse = Results({}, [Measured(COST, {OURS: [3.0], THEIRS: [1.0]})])

    assert "3.0 × worse" in picture(worse)


def test_publishing_replaces_what_is_between_the_markers_and_nothing_else(results: Results, tmp_path: Path) -> None:
    page, drawn = tmp_path / "speed.md", tmp_path / "images" / "benchmark.svg"
    page.write_text(f"# Before\n\n{BEGIN}\nold figures\n{END}\n\nAfter.\n")

    publish(results, page, drawn)
    once = page.read_text()
    publish(results, page, drawn)

    assert page.read_text() == once
    assert once.startswith(f"# Before\n\n{BEGIN}\n![")
    assert once.endswith(f"{END}\n\nAfter.\n")
    assert "old figures" not in once
    assert markdown_table(results) in once
    assert drawn.read_text() == picture(results)


def test_a_page_without_a_place_is_left_alone(results: Results, tmp_path: Path) -> None:
    page, drawn = tmp_path / "speed.md", tmp_path / "benchmark.svg"
    page.write_text(f"# Before\n{BEGIN}\n")

    with pytest.raises(PublicationError, match=r"speed\.md has no line"):
        publish(results, page, drawn)

    assert page.read_text() == f"# Before\n{BEGIN}\n"
    assert not drawn.exists()
