"""Merging ranges of offsets: which of two counts, what is cut, and what becomes one."""

from __future__ import annotations

import pytest

from tests.support.share_states import ACKNOWLEDGED, ARCHIVED, AVAILABLE, batch
from tidelog.coordination.share_state.state_batches import StateBatch, merged


@pytest.mark.parametrize(
    ("known", "written", "both"),
    [
        ([], [batch(0, 4)], [batch(0, 4)]),
        ([batch(0, 4)], [batch(5, 9)], [batch(0, 9)]),
        ([batch(0, 4)], [batch(6, 9)], [batch(0, 4), batch(6, 9)]),
        ([batch(0, 4)], [batch(5, 9, ARCHIVED)], [batch(0, 4), batch(5, 9, ARCHIVED)]),
        (
            [batch(0, 9, AVAILABLE)],
            [batch(3, 5, ACKNOWLEDGED)],
            [batch(0, 2, AVAILABLE), batch(3, 5), batch(6, 9, AVAILABLE)],
        ),
        ([batch(3, 5)], [batch(0, 9, AVAILABLE, 2)], [batch(0, 9, AVAILABLE, 2)]),
        ([batch(0, 5, ARCHIVED, 2)], [batch(3, 9, AVAILABLE)], [batch(0, 5, ARCHIVED, 2), batch(6, 9, AVAILABLE)]),
        ([batch(0, 5, AVAILABLE)], [batch(0, 5, AVAILABLE, 2)], [batch(0, 5, AVAILABLE, 2)]),
    ],
)
def test_the_batch_delivered_more_often_counts_then_the_higher_state(
    known: list[StateBatch], written: list[StateBatch], both: list[StateBatch]
) -> None:
    assert merged(known, written, -1) == tuple(both)
    assert merged(written, known, -1) == tuple(both)


def test_what_lies_before_the_start_is_cut() -> None:
    known = [batch(0, 4), batch(5, 9, AVAILABLE), batch(10, 12, ARCHIVED)]

    assert merged(known, [], 7) == (batch(7, 9, AVAILABLE), batch(10, 12, ARCHIVED))
    assert merged(known[:1], [], 5) == ()


def test_a_batch_that_comes_to_touch_one_that_was_passed_stays_apart_as_in_kafka() -> None:
    passed, below, above = batch(0, 4, ACKNOWLEDGED), batch(5, 9, AVAILABLE), batch(5, 12, ACKNOWLEDGED)

    assert merged([passed, below], [above], -1) == (passed, above)
