"""How many segments may be open, and which lets go of its files first."""

from __future__ import annotations

import resource

import pytest

from tidelog.model.config import INT_MAX
from tidelog.storage.open_segments import (
    CONNECTIONS_AT_LEAST,
    DESCRIPTORS_KEPT,
    DESCRIPTORS_PER_CONNECTION,
    DESCRIPTORS_PER_SEGMENT,
    MAPPED_SEGMENTS_MAX,
    OpenSegments,
    connections_beside,
    segments_beside,
)
from tidelog.storage.os_files import OsFiles


class FakeSegment:
    def __init__(self) -> None:
        self.is_open = True

    def release(self) -> None:
        self.is_open = False


def test_the_least_recently_used_lets_go() -> None:
    open_segments = OpenSegments(2)
    first, second, third = FakeSegment(), FakeSegment(), FakeSegment()
    for segment in (first, second, first, third):
        open_segments.used(segment)

    assert [each.is_open for each in (first, second, third)] == [True, False, True]
    assert len(open_segments) == 2


def test_the_order_matters_from_half_of_the_room_on() -> None:
    open_segments = OpenSegments(4)
    segments = [FakeSegment() for _ in range(3)]
    crowded = []
    for segment in segments:
        open_segments.used(segment)
        crowded.append(open_segments.is_crowded)

    assert crowded == [False, False, True]
    open_segments.forget(segments[0])
    assert not open_segments.is_crowded


@pytest.mark.parametrize("connections_max", [0, 10, 400, INT_MAX])
@pytest.mark.parametrize("descriptors_max", [256, 1024, 20_000, 1_000_000])
def test_segments_and_connections_share_the_descriptors(descriptors_max: int, connections_max: int) -> None:
    segments = segments_beside(descriptors_max, connections_max)

    used = segments * DESCRIPTORS_PER_SEGMENT + DESCRIPTORS_KEPT
    beside = descriptors_max - used
    shared = descriptors_max - DESCRIPTORS_KEPT
    assert beside >= min(connections_max * DESCRIPTORS_PER_CONNECTION, shared * 3 // 4)
    assert segments == MAPPED_SEGMENTS_MAX or segments >= shared // 4 // DESCRIPTORS_PER_SEGMENT


@pytest.mark.parametrize("connections_max", [0, 10, 400, INT_MAX])
@pytest.mark.parametrize("descriptors_max", [256, 1024, 20_000])
def test_connections_never_take_what_segments_need(descriptors_max: int, connections_max: int) -> None:
    segments = segments_beside(descriptors_max, connections_max)

    connections = min(connections_max, connections_beside(descriptors_max, segments))

    used = segments * DESCRIPTORS_PER_SEGMENT + connections * DESCRIPTORS_PER_CONNECTION
    assert used + DESCRIPTORS_KEPT <= descriptors_max


def test_a_process_that_may_open_hardly_anything_still_opens_one() -> None:
    assert segments_beside(16, INT_MAX) == 1
    assert connections_beside(16, 1) == CONNECTIONS_AT_LEAST


def test_the_real_limit_is_that_of_the_process() -> None:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert 0 < OsFiles().descriptors_max() <= (allowed if allowed > 0 else INT_MAX)
