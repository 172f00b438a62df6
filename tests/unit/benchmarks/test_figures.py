"""Samples of two contestants, and what is made of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.broker.figures import (
    BEFORE,
    OURS,
    THEIRS,
    Better,
    Figure,
    Goal,
    Measured,
    Results,
    ResultsError,
    from_json,
    read_results,
    to_json,
)

COST = Figure("cost_s", "cost", "s", goal=Goal(1 / 4))
RATE = Figure("rate", "rate", "MB/s", Better.MORE, goal=Goal(1.5))
ALONE = Figure("alone_ms", "alone", "ms", goal=Goal(150, is_absolute=True))
PLAIN = Figure("plain", "plain", "MB")
KNOWN = {each.key: each for each in (COST, RATE, ALONE, PLAIN)}


def measured(figure: Figure, ours: list[float], theirs: list[float] | None = None) -> Measured:
    return Measured(figure, {OURS: ours} if theirs is None else {OURS: ours, THEIRS: theirs})


def test_the_ratio_is_taken_within_each_round() -> None:
    # The machine was twice as slow in the second round: the ratios do not see it, a ratio of medians would.
    each = measured(COST, [1.0, 2.0, 1.5], [4.0, 8.0, 3.0])

    assert each.ratios == [0.25, 0.25, 0.5]
    assert each.ratio == 0.25


def test_medians_are_those_of_each_contestant() -> None:
    each = measured(COST, [3.0, 1.0, 2.0], [9.0, 7.0, 8.0])

    assert (each.median(OURS), each.median(THEIRS), each.median("nobody")) == (2.0, 8.0, None)


@pytest.mark.parametrize(
    ("figure", "ours", "theirs", "reached"),
    [
        (COST, [1.0], [4.0], True),
        (COST, [1.1], [4.0], False),
        (RATE, [3.0], [2.0], True),
        (RATE, [2.9], [2.0], False),
        (ALONE, [150.0], None, True),
        (ALONE, [151.0], None, False),
        (PLAIN, [1.0], [1.0], None),
    ],
)
def test_a_goal_binds_the_ratio_or_our_own_median(
    figure: Figure, ours: list[float], theirs: list[float] | None, reached: bool | None
) -> None:
    assert measured(figure, ours, theirs).reached is reached


def test_a_goal_with_nothing_to_compare_is_missed() -> None:
    assert Measured(COST).reached is False
    assert measured(COST, [1.0], [0.0]).reached is False


@pytest.mark.parametrize(
    ("figure", "said"),
    [(COST, "≤ 1/4 ×"), (RATE, "≥ 1.5 ×"), (ALONE, "≤ 150 ms"), (Figure("k", "w", "s", goal=Goal(1)), "≤ 1 ×")],
)
def test_a_goal_is_said_as_a_reader_would(figure: Figure, said: str) -> None:
    assert figure.goal is not None
    assert figure.goal.said(figure.better, figure.unit) == said


def test_results_keep_one_line_a_figure_and_name_what_was_missed() -> None:
    results = Results({})
    for ours, theirs in ((2.0, 4.0), (3.0, 4.0)):
        results.of(COST).add(OURS, ours)
        results.of(COST).add(THEIRS, theirs)
    results.of(PLAIN).add(OURS, 1.0)

    assert [each.figure.key for each in results.measured] == ["cost_s", "plain"]
    assert results.missed == ["cost"]


def test_json_comes_back_as_it_was() -> None:
    results = Results({"machine": "2 cores"}, [measured(COST, [1.0, 2.0], [4.0, 5.0]), measured(ALONE, [44.0])])

    again = from_json(to_json(results), KNOWN)

    assert again == results
    line = json.loads(to_json(results))["figures"][0]
    assert (line["ratio_min"], line["ratio_max"], line["asked"], line["reached"]) == (0.25, 0.4, "≤ 1/4 ×", False)


def test_later_files_replace_figures_of_earlier_ones_in_the_order_of_the_table(tmp_path: Path) -> None:
    first, second = tmp_path / "a.json", tmp_path / "b.json"
    first.write_text(to_json(Results({"rounds": "1"}, [measured(RATE, [1.0], [1.0]), measured(PLAIN, [7.0])])))
    second.write_text(to_json(Results({"rounds": "3"}, [measured(RATE, [2.0], [1.0]), measured(COST, [1.0], [4.0])])))

    merged = read_results([first, second], KNOWN)

    assert [(each.figure.key, each.samples[OURS]) for each in merged.measured] == [
        ("cost_s", [1.0]),
        ("rate", [2.0]),
        ("plain", [7.0]),
    ]
    assert merged.circumstances == {"rounds": "3"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"circumstances": {}, "figures": [{"key": "gone", "samples": {}}]}',
        '{"circumstances": {}, "figures": 3}',
    ],
)
def test_what_is_no_file_of_results_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    path.write_text(text)

    with pytest.raises(ResultsError, match=r"results\.json: not a file of results"):
        read_results([path], KNOWN)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultsError, match=r"none\.json cannot be read: No such file"):
        read_results([tmp_path / "none.json"], KNOWN)


def test_beside_another_checkout_cpu_may_not_be_worse_and_times_are_not_judged() -> None:
    results = Results({BEFORE: "a checkout"})
    for what, ours in (("broker CPU per GB", 1.2), ("round trip", 9.0)):
        measured = results.of(Figure(what, what, "s", goal=Goal(1 / 4)))
        measured.add(OURS, ours)
        measured.add(BEFORE, 1.0)

    assert results.missed == ["broker CPU per GB"]
    assert [each.ratio for each in results.measured] == [1.2, 9.0]
