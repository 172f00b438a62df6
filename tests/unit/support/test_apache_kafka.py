"""The harness that runs Apache Kafka says plainly what is missing, and takes its tools' text apart as they print it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.apache_kafka import KafkaError, MissingProgramError, Output, free_ports, require, wait_until
from tests.support.dump_log_segments import complaints, split


def test_a_missing_program_is_named_with_its_package_in_one_line() -> None:
    with pytest.raises(MissingProgramError) as raised:
        require("no-such-program", "its-package")

    assert "`no-such-program`" in str(raised.value)
    assert "`its-package`" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_waiting_in_vain_ends_with_what_was_waited_for() -> None:
    with pytest.raises(KafkaError, match="until the cows come home"):
        wait_until(lambda: False, "the cows come home", timeout_s=0.0)


def test_free_ports_differ() -> None:
    assert len(set(free_ports(5))) == 5


@pytest.mark.parametrize(
    ("stdout", "stderr", "code"),
    [
        ("baseOffset: 0 crc: 1 isvalid: false", "", 0),
        ("Found 3 invalid bytes at the end of 0.log", "", 0),
        ("", "Mismatches in :/x.index\n  Index offset: 5, log offset: 7", 0),
        ("", "Non-consecutive offsets in /x.log\n  5 is followed by 7", 0),
        ("", "Snapshot contained a bad checksum", 0),
        ("", "", 1),
    ],
)
def test_every_way_to_complain_is_seen(stdout: str, stderr: str, code: int) -> None:
    assert complaints(Output(stdout, stderr, code)) != []


def test_the_tools_own_mistake_about_first_offsets_is_no_complaint() -> None:
    assert complaints(Output("isvalid: true", "Non-consecutive offsets in /x.log\n  -1 is followed by 72\n", 0)) == []


def test_what_was_printed_is_taken_apart_by_file() -> None:
    text = (
        "Dumping /x/0.index\noffset: 5 position: 7\noffset: 9 position: 20\n"
        "Dumping /x/0.snapshot\nproducerId: 3 currentTxnFirstOffset: OptionalLong.empty lastTimestamp: 8\n"
        "producerId: 4 currentTxnFirstOffset: OptionalLong[12] lastTimestamp: 9\n"
        "Dumping /x/0.log\nLog starting offset: 0\n"
        "| offset: 1 CreateTime: 5 keySize: 4 valueSize: 6 sequence: -1 headerKeys: [] endTxnMarker: ABORT coordinatorEpoch: 2\n"
        '| offset: 2 CreateTime: 5 keySize: 4 valueSize: -1 sequence: -1 headerKeys: [] key: {"type":"2"} payload: <DELETE>\n'
        '| offset: 3 CreateTime: 5 keySize: 4 valueSize: 5 sequence: -1 headerKeys: [] KRaftVersion {"kRaftVersion":1}\n'
    )
    dumps = split(Output(text, "", 0))

    assert dumps[Path("/x/0.index")].entries() == [{"offset": 5, "position": 7}, {"offset": 9, "position": 20}]
    assert dumps[Path("/x/0.snapshot")].entries() == [
        {"producerId": 3, "lastTimestamp": 8},
        {"producerId": 4, "currentTxnFirstOffset": 12, "lastTimestamp": 9},
    ]
    assert dumps[Path("/x/0.log")].decoded_records() == [
        {"offset": 1, "control": "ABORT", "content": {"coordinatorEpoch": 2}},
        {"offset": 2, "key": {"type": "2"}, "payload": "<DELETE>"},
        {"offset": 3, "control": "KRaftVersion", "content": {"kRaftVersion": 1}},
    ]
