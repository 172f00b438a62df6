"""What a node has answered, byte for byte, it still answers: the recorded conversations, on both twins of the kernels."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.answer_scenarios import SCENARIOS
from tests.support.kernel_twins import can_compile
from tests.support.recorded_answers import Conversation, Step, read, recordings, replay
from tidelog.kernel_choice import Twin

REPOSITORY = Path(__file__).resolve().parent.parent.parent
# The whole takes some seconds.
DEADLINE_S = 120


@pytest.mark.parametrize("twin", ["python", "compiled"])
def test_every_answer_is_the_recorded_one(twin: Twin) -> None:
    """In a process of its own, since one process has one twin."""
    if twin == "compiled" and not can_compile():
        pytest.skip("there is no compiler")
    told = subprocess.run(
        [sys.executable, "-m", "tests.support.recorded_answers"],
        cwd=REPOSITORY,
        env={**os.environ, "TIDELOG_KERNELS": twin},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )

    assert told.returncode == 0, f"{told.stdout}\n{told.stderr}"
    assert f"kernels: {twin};" in told.stdout


def test_there_is_a_recording_of_each_scenario() -> None:
    assert [path.name.removesuffix(".txt.xz") for path in recordings()] == sorted(SCENARIOS)


def a_conversation(name: str) -> Conversation:
    (path,) = [path for path in recordings() if path.name == f"{name}.txt.xz"]
    return read(path)


def changed(conversation: Conversation, label: str, place: int, data: bytes) -> Conversation:
    """Up to the first answer of that name, which is another one."""
    steps: list[Step] = []
    for step in conversation.steps:
        if step.kind == "<" and step.label == label:
            other = step.data[:place] + data + step.data[place + len(data) :]
            return Conversation(conversation.settings, [*steps, step._replace(data=other)])
        steps.append(step)
    raise AssertionError(label)


def test_an_answer_that_differs_is_told_by_its_field() -> None:
    """The error code of a partition: behind the correlation id, one topic by name, one partition and its number."""
    other = changed(a_conversation("groups"), "commit v2 one", 4 + 4 + 2 + 6 + 4 + 4, b"\x00\x07")

    assert replay(other) == [
        "commit v2 one (connection a): OffsetCommit v2.topics[0].partitions[0].error_code: was 7, is 0"
    ]


def test_a_connection_that_is_closed_is_told() -> None:
    whole = a_conversation("groups")
    at = next(number for number, step in enumerate(whole.steps) if step.kind == "x")
    answered = whole.steps[at]._replace(kind="<", data=bytes(12))

    told = replay(Conversation(whole.settings, [*whole.steps[:at], answered]))

    assert len(told) == 1
    assert told[0].endswith("the connection was closed instead of an answer")
