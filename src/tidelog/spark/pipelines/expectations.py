"""What a pipeline expects of its rows, and how often that was so. Data and counts, without Spark.

    FromTopic("orders", Json(...), expect={
        "an order has an id": "id is not null",                            a record for which it does not hold is a dead letter
        "the price is not negative": Expect("price >= 0", "drop"),
    })

Spark counts what holds and what does not as the rows go by (`Dataset.observe`), and tells it with each batch's progress. A batch
that is computed again, because a worker was lost, may be counted again: these are figures for watching, and no account.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tidelog.spark.pipelines.declaration import Declaration, lenient

WARN, DROP, QUARANTINE, FAIL = ACTIONS = ("warn", "drop", "quarantine", "fail")
# Each is computed and counted for every row.
EXPECTATIONS_MAX = 100

_OBSERVATION = "tidelog.expect."
_VIOLATED, _PASSED = "violated", "passed"


@lenient
@dataclass(frozen=True, slots=True)
class Expect(Declaration):
    """A condition for rows, and what becomes of those for which it does not hold, or is null."""

    condition: str
    action: str = QUARANTINE
    """warn: nothing, it is counted. drop: the row is left out. quarantine: it is a dead letter. fail: the query stops."""


def as_expectations(declared: Mapping[str, str | Expect]) -> dict[str, Expect]:
    """What a file says, with the action of those that are only a text."""
    return {name: Expect(each) if isinstance(each, str) else each for name, each in declared.items()}


class ExpectationCount(msgspec.Struct, frozen=True, kw_only=True):
    """How often one expectation was met in a run, and in the last batch that had rows."""

    of: str
    """The source or view that is expected to be so."""
    name: str
    action: str
    passed: int = 0
    violated: int = 0
    batch_passed: int = 0
    batch_violated: int = 0


def observation_name(of: str) -> str:
    """Under which Spark keeps the counts of a source or a view."""
    return f"{_OBSERVATION}{of}"


def is_of_expectations(observed: str) -> bool:
    """Whether something that Spark has observed are these counts."""
    return observed.startswith(_OBSERVATION)


def count_names(index: int) -> tuple[str, str]:
    """Of rows for which the expectation of this number does not hold, and of those for which it does."""
    return f"{_VIOLATED}{index}", f"{_PASSED}{index}"


def no_counts(of: str, expectations: Mapping[str, Expect]) -> tuple[ExpectationCount, ...]:
    return tuple(ExpectationCount(of=of, name=name, action=each.action) for name, each in expectations.items())


def counted(counts: tuple[ExpectationCount, ...], observed: Mapping[str, Any]) -> tuple[ExpectationCount, ...]:
    """With what Spark has observed of one batch, as its report says it. What it says nothing of was not looked at."""
    indexes: dict[str, int] = {}
    found = []
    for each in counts:
        index = indexes[each.of] = indexes.get(each.of, -1) + 1
        batch = observed.get(observation_name(each.of), {})
        violated, passed = (int(batch.get(name) or 0) for name in count_names(index))
        found.append(
            msgspec.structs.replace(
                each,
                passed=each.passed + passed,
                violated=each.violated + violated,
                batch_passed=passed,
                batch_violated=violated,
            )
        )
    return tuple(found)
