"""What clients push, read: values with their attributes, and whatever else somebody may send."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.support.otlp import CUMULATIVE, field, fixed, gauge, histogram, metrics_data, number, total, varint
from tidelog.broker.telemetry import otlp_metrics
from tidelog.broker.telemetry.otlp_metrics import Change, OtlpError, Point, read_metrics


def test_a_value_has_the_attributes_of_its_point_and_of_what_it_is_about() -> None:
    data = metrics_data(
        [gauge("g", number(1.5, {"node.id": 3, "up": True, "z": -2, "f": 0.5}), number(7))], {"client_rack": "north"}
    )

    assert read_metrics(data) == [
        Point(
            "g",
            (("client_rack", "north"), ("f", "0.5"), ("node.id", "3"), ("up", "true"), ("z", "-2")),
            1.5,
            Change.NOW,
        ),
        Point("g", (("client_rack", "north"),), 7, Change.NOW),
    ]


def test_sums_say_whether_they_are_added_to_what_was_before() -> None:
    data = metrics_data(
        [
            total("added", number(1)),
            total("total", number(2), temporality=CUMULATIVE),
            total("moved", number(-3), monotonic=False),
            total("now", number(4), temporality=CUMULATIVE, monotonic=False),
        ]
    )

    assert [(each.name, each.value, each.change) for each in read_metrics(data)] == [
        ("added", 1, Change.ADDED),
        ("total", 2, Change.TOTAL),
        ("moved", -3, Change.MOVED),
        ("now", 4, Change.NOW),
    ]


def test_a_histogram_becomes_its_count_and_its_sum() -> None:
    assert read_metrics(metrics_data([histogram("h", 3, 4.5)])) == [
        Point("h.count", (("a", "b"),), 3, Change.ADDED),
        Point("h.sum", (("a", "b"),), 4.5, Change.ADDED),
    ]


def test_what_it_is_about_may_come_behind_it() -> None:
    data = metrics_data([gauge("g", number(1))], {"k": "v"})
    about = field(1, field(1, field(1, "k") + field(2, field(1, "v"))))
    assert about in data

    turned = data[data.index(about) + len(about) :] + about
    assert [each.attributes for each in read_metrics(field(1, turned))] == [(("k", "v"),)]


def test_nothing_is_nothing() -> None:
    assert read_metrics(b"") == []


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (field(1, b"")[:-1] + b"\x05ab", "a field of 5 bytes ends beyond its message"),
        (b"\x0b", "the wire type 3"),
        (b"\x80" * 11, "more than ten bytes"),
        (b"\x80", "ends beyond its message"),
        (metrics_data([field(1, b"\xff")]), "a text is not UTF-8"),
        (metrics_data([gauge("g", field(4, b"four"))]), "does not have eight bytes"),
        (metrics_data([gauge("g", field(4, 4))]), "a number is where a message belongs"),
        (metrics_data([gauge("g", varint(6 << 3 | 5) + b"1234")]), "does not have eight bytes"),
    ],
)
def test_bytes_that_are_none_are_refused_in_a_sentence(data: bytes, sentence: str) -> None:
    with pytest.raises(OtlpError, match=sentence):
        read_metrics(data)


def test_more_fields_than_any_client_has_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(otlp_metrics, "FIELDS_MAX", 100)

    with pytest.raises(OtlpError, match="more than 100 fields"):
        read_metrics(field(1, b"") * 101)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_read_or_refused(data: bytes) -> None:
    for each in (
        data,
        metrics_data([data]),
        metrics_data([gauge("g", data)]),
        metrics_data([gauge("g", fixed(4, 1) + data)]),
    ):
        try:
            read_metrics(each)
        except OtlpError:
            continue


def test_what_points_share_counts_for_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a push of some hundred kilobytes becomes gigabytes: all of its points with all that they share."""
    monkeypatch.setattr(otlp_metrics, "FIELDS_MAX", 1_000)
    few = metrics_data([gauge("g", *[number(1)] * 20)], {f"k{index}": "v" for index in range(20)})
    assert len(read_metrics(few)) == 20
    for kind in (gauge("g", *[number(1)] * 40), b"".join([field(1, "h"), field(9, field(1, b"") * 40)])):
        data = metrics_data([kind], {f"k{index}": "v" for index in range(40)})
        with pytest.raises(OtlpError, match="more than 1000 fields"):
            read_metrics(data)
