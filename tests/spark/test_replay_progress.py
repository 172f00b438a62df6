"""What a group remembers of dead letters that were sent again, held against a set of those that have gone."""

from __future__ import annotations

import base64
import zlib

from hypothesis import given, strategies as st

from tidelog.client.consumer.records import ConsumerRecord
from tidelog.spark.pipelines.dead_letter import DeadLetter, letter_of
from tidelog.spark.pipelines.replay_progress import METADATA_CHARACTERS_MAX, ReplayProgress, Scan, progress_of
from tidelog.wire.record_batch import TimestampType

SAID = {"pipeline": "p", "reason": "why", "topic": "orders", "partition": "2", "offset": "7"}


def letter(record_headers: tuple[tuple[str, bytes | None], ...] = (), **said: str | None) -> DeadLetter | None:
    kept = {name: text for name, text in {**SAID, **said}.items() if text is not None}
    headers = (*record_headers, *((f"tidelog.dead-letter.{name}", text.encode()) for name, text in kept.items()))
    return letter_of(ConsumerRecord("dead", 0, 5, 1000, TimestampType.CREATE_TIME, b"k", b"v", headers), "p")


def again(progress: ReplayProgress) -> ReplayProgress:
    """As it comes back from a group."""
    return progress_of(progress.offset, progress.metadata())


@given(
    letters=st.sets(st.integers(0, 60)),
    others=st.sets(st.integers(0, 60)),
    rounds=st.lists(st.tuples(st.sets(st.integers(0, 60)), st.integers(0, 70)), max_size=5),
)
def test_a_letter_has_gone_if_and_only_if_it_was_chosen(
    letters: set[int], others: set[int], rounds: list[tuple[set[int], int]]
) -> None:
    gone: set[int] = set()
    progress = ReplayProgress((), 0)

    for chosen, until in rounds:
        scan = Scan(progress)
        for offset in range(progress.offset, until):
            if offset in letters:
                if scan.has_gone(offset):
                    assert offset in gone
                    scan.goes(offset)
                elif offset in chosen:
                    assert offset not in gone
                    scan.goes(offset)
                    gone.add(offset)
                else:
                    scan.stays(offset)
            elif offset in others:
                scan.passes(offset)
        progress = again(scan.progress)

    assert [each for each in letters if progress.has_gone(each)] == [each for each in letters if each in gone]
    assert not [each for each in letters - gone if each < progress.offset]


def test_what_stays_in_one_piece_takes_little_room() -> None:
    scan = Scan(ReplayProgress((), 0))
    for offset in range(100_000):
        scan.stays(offset) if 1_000 <= offset < 99_000 else scan.goes(offset)

    progress = scan.progress
    assert (progress.offset, progress.left, progress.end) == (1_000, ((1_000, 99_000),), 100_000)
    assert len(progress.metadata()) < 40
    assert again(progress) == progress


def test_what_alternates_at_random_is_too_much_to_remember_at_some_point() -> None:
    scan = Scan(ReplayProgress((), 0))
    for offset in range(100_000):
        scan.stays(offset) if hash((offset, 7)) % 3 else scan.goes(offset)

    assert len(scan.progress.metadata()) > METADATA_CHARACTERS_MAX


def test_a_text_of_somebody_else_means_that_nothing_has_gone_from_there_on() -> None:
    bomb = base64.b64encode(zlib.compress(b"\x01" * 3_000_000)).decode()

    for text in ("", "by hand", "1:", "1:%%%", "1:eJw=", "2:AAAA", f"1:{bomb}"):
        assert progress_of(42, text) == ReplayProgress((), 42)


def test_the_record_goes_without_what_the_letter_said_and_with_how_often_it_went() -> None:
    found = letter((("trace", b"1"), ("tidelog.dead-letter.reason", b"an older one"), ("none", None)))

    assert found is not None
    assert (found.topic, found.partition, found.offset, found.reason) == ("orders", 2, 7, "why")
    assert found.headers == [("trace", b"1"), ("none", None), ("tidelog.replays", b"1")]
    once_more = letter(tuple(found.headers))
    assert once_more is not None
    assert once_more.headers == [("trace", b"1"), ("none", None), ("tidelog.replays", b"2")]
    odd = letter((("tidelog.replays", b"many"),))
    assert odd is not None
    assert odd.replays == 0


def test_times_of_records_are_those_that_they_had() -> None:
    times = [
        None if (found := letter(timestamp=text)) is None else found.timestamp_ms
        for text in ("2026-11-16T08:00:00.123Z", "yesterday", None)
    ]

    assert times == [1_794_816_000_123, None, None]


def test_letters_of_others_are_none() -> None:
    assert letter(pipeline="another") is None
    assert letter(pipeline=None) is letter(topic=None) is letter(partition="x") is letter(offset="-1") is None
