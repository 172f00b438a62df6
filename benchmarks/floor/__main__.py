"""Tidelog beside the floor, in one run: what a C program needs that does only what nobody can leave out.

python -m benchmarks.floor [--quick] [--rows NAME,NAME] [--rounds N] [--json FILE]
"""

from __future__ import annotations

from benchmarks.broker.contestants import Contestants
from benchmarks.broker.course import FULL, QUICK, Course
from benchmarks.broker.load_client import LoadClient
from benchmarks.floor.floor_program import Floor
from benchmarks.floor.rows import ROWS, Run
from benchmarks.sitting import Sitting, main


def measure(sitting: Sitting[Run]) -> None:
    """Whatever ends it, no process and no file is left."""
    sizes = QUICK if sitting.is_quick else FULL
    contestants = Contestants(sitting.folder, sitting.peer)
    with (
        Course(sitting.results, contestants, LoadClient.built(), sizes, sitting.rounds, sitting.say) as course,
        contestants.running_pair(sitting.say) as pair,
    ):
        sitting.go_over(Run(course, pair))


if __name__ == "__main__":
    main("floor", "Tidelog beside the floor", ROWS, measure, peer=Floor)
