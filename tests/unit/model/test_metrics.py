"""Families of numbers, and their text."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from tidelog.model import metrics_text
from tidelog.model.metrics import Histogram, Kind, MetricError, Reading, Registry
from tidelog.model.metrics_text import number_text, render


def text_of(registry: Registry) -> str:
    return b"".join(render(registry)).decode()


@pytest.fixture
def registry() -> Registry:
    return Registry()


def test_a_counter_is_shown_with_its_help_and_type(registry: Registry) -> None:
    counter = registry.counter("seen_total", "What was seen.")
    counter.add()
    counter.add(41)

    assert text_of(registry) == "# HELP seen_total What was seen.\n# TYPE seen_total counter\nseen_total 42\n"


def test_a_gauge_is_read_when_it_is_shown(registry: Registry) -> None:
    values = [1.5]
    registry.gauge("now", "Now.", lambda: values[0])
    assert text_of(registry).endswith("\nnow 1.5\n")

    values[0] = 7
    assert text_of(registry).endswith("\nnow 7\n")


def test_buckets_are_cumulative_and_a_bound_belongs_to_its_bucket(registry: Registry) -> None:
    histogram = registry.histogram("took_ms", "How long.", (0.5, 1, 10))
    for value in (0.5, 0.6, 1, 10.5, 3):
        histogram.observe(value)

    assert text_of(registry).splitlines()[2:] == [
        'took_ms_bucket{le="0.5"} 1',
        'took_ms_bucket{le="1"} 3',
        'took_ms_bucket{le="10"} 4',
        'took_ms_bucket{le="+Inf"} 5',
        "took_ms_sum 15.6",
        "took_ms_count 5",
    ]


def test_labels_and_help_are_escaped(registry: Registry) -> None:
    registry.family(Kind.GAUGE, "odd", "A \\ and\na line.", ("name", "other"), lambda: [(('q"b\\n\nl', "é"), 1)])

    assert text_of(registry) == (
        '# HELP odd A \\\\ and\\na line.\n# TYPE odd gauge\nodd{name="q\\"b\\\\n\\nl",other="é"} 1\n'
    )


def test_labels_that_are_left_out_stand_for_the_sum(registry: Registry) -> None:
    registry.family(Kind.COUNTER, "in_total", "In.", ("topic",), lambda: [((), 3), (("a",), 3)])

    assert text_of(registry).splitlines()[2:] == ["in_total 3", 'in_total{topic="a"} 3']


def test_a_histogram_with_labels_has_them_on_every_line(registry: Registry) -> None:
    seen = Histogram((1,))
    seen.observe(1)
    registry.family(Kind.HISTOGRAM, "took", "Took.", ("request",), lambda: [(("Fetch",), seen)])

    assert text_of(registry).splitlines()[2:] == [
        'took_bucket{request="Fetch",le="1"} 1',
        'took_bucket{request="Fetch",le="+Inf"} 1',
        'took_sum{request="Fetch"} 1',
        'took_count{request="Fetch"} 1',
    ]


def test_a_histogram_takes_in_another(registry: Registry) -> None:
    one, other = Histogram((1, 2)), Histogram((1, 2))
    one.observe(1)
    other.observe(2)
    other.observe(9)

    one.add(other)

    assert (one.counts, one.sum, one.count) == ([1, 1, 1], 12, 3)


def test_a_long_family_comes_in_pieces_and_a_change_meanwhile_does_no_harm(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metrics_text, "LINES_PER_PIECE", 10)
    values = {str(number): number for number in range(25)}
    registry.family(Kind.GAUGE, "many", "Many.", ("n",), lambda: (((key,), each) for key, each in values.items()))
    pieces = render(registry)
    first = next(pieces)

    values.clear()
    rest = list(pieces)

    assert len(rest) == 2
    assert b"".join([first, *rest]).count(b'many{n="') == 25


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (True, "1"),
        (-3, "-3"),
        (2**63, "9223372036854775808"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
        (math.nan, "NaN"),
    ],
)
def test_numbers_are_spelt_as_the_format_wants(value: float, text: str) -> None:
    assert number_text(value) == text


def _nothing() -> list[Reading]:
    return []


@pytest.mark.parametrize(
    "declare",
    [
        lambda registry: registry.gauge("a-b", "Bad name.", lambda: 1),
        lambda registry: registry.gauge("taken", "Twice.", lambda: 1),
        lambda registry: registry.gauge("gauge_total", "A gauge is no counter.", lambda: 1),
        lambda registry: registry.counter("count", "A counter without its suffix."),
        lambda registry: registry.family(Kind.GAUGE, "x", "Bad label.", ("a-b",), _nothing),
    ],
)
def test_what_cannot_be_a_family_is_refused(registry: Registry, declare: Callable[[Registry], object]) -> None:
    registry.gauge("taken", "Once.", lambda: 1)

    with pytest.raises(MetricError):
        declare(registry)

    assert len(registry) == 1
