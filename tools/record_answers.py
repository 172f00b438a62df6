"""Records the conversations under tests/fixtures/answers: what a node answers, byte for byte, to the requests of the data path,
of groups and of transactions in every version.

    .venv/bin/python tools/record_answers.py [NAME ...]         seconds

The recordings stand for what clients have relied on, so a difference is first of all a bug. Record anew only where
- a scenario in tests/support/answer_scenarios has been added or extended: the answers that were there stay as they were
  (the tool prints which lines of a recording it removes: none), or
- an answer was wrong, Apache Kafka answers as the new one does, and the commit says which answer that is and how it was seen.
Never in a commit that reshapes the code, and never because a test fails.
"""

from __future__ import annotations

import difflib
import logging
import sys
from importlib import import_module
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SHOWN_CHARACTERS = 200
sys.path.insert(0, str(REPOSITORY))

from tests.support.answer_scenarios import SCENARIOS  # noqa: E402  (the repository's root is not on a tool's path)
from tests.support.answer_scenarios.recorder import Recorder  # noqa: E402
from tests.support.recorded_answers import RECORDED, lines_of, read, replay, write  # noqa: E402


def main(names: list[str]) -> int:
    logging.basicConfig(level=logging.ERROR)
    RECORDED.mkdir(parents=True, exist_ok=True)
    for name in names or SCENARIOS:
        scenario = import_module(f"tests.support.answer_scenarios.{name}")
        with Recorder(scenario.SETTINGS) as talk:
            scenario.tell(talk)
            talk.unregister()
            assert not talk.left_over(), f"{name}: there is more to read on {talk.left_over()}"
        path = RECORDED / f"{name}.txt.xz"
        # What a second node answers differently cannot be a recording.
        for difference in replay(talk.conversation):
            print(f"{name}: not the same twice: {difference}")
            return 1
        before = lines_of(read(path)) if path.exists() else []
        after = lines_of(talk.conversation)
        write(path, talk.conversation)
        changes = [each for each in difflib.unified_diff(before, after, lineterm="", n=0) if each[:2] != "@@"][2:]
        removed = [each for each in changes if each.startswith("-")]
        print(*(each[:SHOWN_CHARACTERS] for each in removed), sep="\n", end="\n" if removed else "")
        print(
            f"{path.relative_to(REPOSITORY)}: {len(talk.steps)} frames, {path.stat().st_size:,} bytes;"
            f" {len(removed)} lines removed, {len(changes) - len(removed)} added"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
