"""A replay of dead letters that dies by a signal at one of its steps.

python -m tests.spark.killed_replay FILE STEP
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from tidelog.client.producer.producer import Producer
from tidelog.spark.pipelines.dead_letter_replay import ReplayChoice, replay_dead_letters
from tidelog.spark.pipelines.pipeline_file import load_pipelines

# Before each of these calls, and behind the last one.
STEPS = ("init_transactions", "send", "send_offsets_to_transaction", "commit_transaction", "after")


def die(*_given: object, **_named: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def flushed(call: Callable[..., Any]) -> Callable[..., Any]:
    """With everything written that was sent, so that a reader would see it."""

    def dying(producer: Producer, *_given: object, **_named: object) -> None:
        producer.flush()
        die()

    return dying


def main() -> None:
    path, step = sys.argv[1:]
    if step in STEPS[:2]:
        setattr(Producer, step, die)
    elif step in STEPS[2:4]:
        setattr(Producer, step, flushed(getattr(Producer, step)))
    on_sent = die if step == "after" else print
    replay_dead_letters(load_pipelines(path).pipelines[0], ReplayChoice(), executes=True, on_sent=on_sent)


if __name__ == "__main__":
    main()
