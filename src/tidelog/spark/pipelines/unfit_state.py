"""State in a checkpoint that a changed pipeline cannot go on with, in plain words instead of Spark's. Pure.

sentence = unfit_state(what_spark_says)         None where it is about something else
"""

from __future__ import annotations

import re

_SCHEMA = re.compile(
    r"Provided (key|value) schema does not match existing state .*?"
    r"Existing \w+_schema=(StructType\(.*?\)) and new \w+_schema=(StructType\(.*\))\.",
    re.DOTALL,
)
_OPERATORS = re.compile(
    r"Stateful operators in the metadata: \[(?P<old>[^\]]*)\]; Stateful operators in current batch: \[(?P<new>[^\]]*)\]"
)
_NAMES = {
    "stateStoreSave": "an aggregation",
    "sessionWindowStateStoreSaveExec": "session windows",
    "symmetricHashJoin": "a join",
    "dedupe": "dropDuplicates",
    "dedupeWithinWatermark": "dropDuplicatesWithinWatermark",
    "transformWithStateExec": "a function with state",
    "transformWithStateInPandasExec": "a function with state",
    "flatMapGroupsWithState": "a function with state",
    "applyInPandasWithState": "a function with state",
}
ADVICE = (
    "go on with the version that has made it, or begin with a new checkpoint, at the offsets that "
    "`tidelog pipeline audit NAME --starting-offsets` tells"
)


def unfit_state(said: str) -> str | None:
    if found := _SCHEMA.search(said):
        what = "keys" if found[1] == "key" else "values"
        old, new = (", ".join(_fields(each)) or "none" for each in (found[2], found[3]))
        return (
            f"the state in the checkpoint has other {what} ({old}) than this version of the pipeline ({new}): {ADVICE}"
        )
    if found := _OPERATORS.search(said):
        old, new = (_operators(found[each]) for each in ("old", "new"))
        return f"the state in the checkpoint is that of {old}, and this version of the pipeline has {new}: {ADVICE}"
    return None


def _operators(text: str) -> str:
    names = re.findall(r"OperatorName: (\w+)", text)
    return " and ".join(_NAMES.get(each, each) for each in names) or "no state"


def _fields(text: str) -> list[str]:
    """Name and type of each field of a struct as Spark prints it, without what lies within them."""
    found, depth, start = [], 0, 0
    for at, sign in enumerate(text):
        if sign == "(":
            depth += 1
            if depth == 2:
                start = at + 1
        elif sign == ")":
            if depth == 2:
                found.append(_field(text[start:at]))
            depth -= 1
    return found


def _field(text: str) -> str:
    name, _, rest = text.partition(",")
    kind = re.match(r"\w+", rest)
    return f"{name} {kind[0].removesuffix('Type').lower()}" if kind else name
