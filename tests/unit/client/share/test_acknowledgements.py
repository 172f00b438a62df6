"""What is said of records, as requests have it."""

from __future__ import annotations

from hypothesis import given, strategies as st

from tidelog import AcknowledgeType
from tidelog.client.share.acknowledgements import GAP, Acknowledgements

ACCEPT, RELEASE, REJECT, RENEW = AcknowledgeType


def batches(said: Acknowledgements) -> list[tuple[int, int, list[int]]]:
    return [(each.first_offset, each.last_offset, list(each.acknowledge_types)) for each in said.batches()]


def test_all_alike_is_one_batch_with_one_type() -> None:
    said = Acknowledgements()
    said.add_all_others(range(5, 505), ACCEPT)

    assert batches(said) == [(5, 504, [ACCEPT])]


def test_short_runs_share_a_batch_with_a_type_for_each_offset_and_long_ones_have_their_own() -> None:
    said = Acknowledgements()
    said.add(0, ACCEPT)
    said.add(1, RELEASE)
    said.add_all_others(range(2, 40), ACCEPT)
    said.add(40, REJECT)
    said.add(42, REJECT)

    assert batches(said) == [
        (0, 1, [ACCEPT, RELEASE]),
        (2, 39, [ACCEPT]),
        (40, 40, [REJECT]),
        (42, 42, [REJECT]),
    ]


def test_gaps_are_said_beside_the_records_around_them() -> None:
    said = Acknowledgements()
    said.add(3, ACCEPT)
    said.add_range(4, 6, GAP)
    said.add(7, ACCEPT)

    assert batches(said) == [(3, 7, [ACCEPT, GAP, GAP, GAP, ACCEPT])]
    assert said.offsets == {3, 7}


def test_what_is_said_of_one_record_goes_before_what_is_said_of_its_batch() -> None:
    said = Acknowledgements()
    said.add_range(0, 4, REJECT)
    said.add(2, RELEASE)

    assert batches(said) == [(0, 4, [REJECT, REJECT, RELEASE, REJECT, REJECT])]


def test_what_was_said_is_kept_when_the_rest_is_accepted() -> None:
    said = Acknowledgements()
    said.add(1, RENEW)
    said.add_all_others([0, 1, 2], ACCEPT)

    assert batches(said) == [(0, 2, [ACCEPT, RENEW, ACCEPT])]
    assert said.renewed == [1]


def test_what_is_merged_later_counts() -> None:
    said, newer = Acknowledgements(), Acknowledgements()
    said.add(1, RELEASE)
    newer.add(1, ACCEPT)
    newer.add_range(5, 5, GAP)
    said.merge(newer)

    assert batches(said) == [(1, 1, [ACCEPT]), (5, 5, [GAP])]


@given(st.dictionaries(st.integers(0, 80), st.sampled_from([*AcknowledgeType]), max_size=60))
def test_batches_say_of_each_offset_what_was_said(kinds: dict[int, AcknowledgeType]) -> None:
    said = Acknowledgements()
    for offset, kind in kinds.items():
        said.add(offset, kind)

    told: dict[int, int] = {}
    last_before = -1
    for first, last, types in batches(said):
        assert last_before < first <= last
        assert len(types) in {1, last - first + 1}
        told.update(zip(range(first, last + 1), types if len(types) > 1 else types * (last - first + 1), strict=True))
        last_before = last

    assert told == kinds
