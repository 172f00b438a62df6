"""Which pipelines a test is about: those of a file, or objects."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.pipeline_file import load_pipelines
from tidelog.spark.testing_kit.errors import PipelineTestError


def tested_pipelines(
    what: str | Path | Pipeline | Sequence[Pipeline], only: Sequence[str], places: Sequence[Path]
) -> list[Pipeline]:
    """A path that is not absolute is looked for in each of the places. PipelineFileError; PipelineTestError where none has it."""
    if isinstance(what, Pipeline):
        what = [what]
    if not isinstance(what, str | Path):
        found = list(what)
        if not found or not all(isinstance(each, Pipeline) for each in found):
            raise PipelineTestError("tidelog_pipeline takes the path of a file, a Pipeline or a list of them")
        travel_by_value([module for each in found if (module := _home_of(each.transform)) is not None])
        return found
    candidates = [each / what for each in dict.fromkeys(places)]
    path = next((each for each in candidates if each.is_file()), None)
    if path is None:
        looked = ", ".join(str(each.parent) for each in candidates)
        raise PipelineTestError(f"there is no file {what}: it was looked for in {looked}")
    file = load_pipelines(path, only)
    travel_by_value(file.modules)
    return list(file.pipelines)


def _home_of(transform: object) -> ModuleType | None:
    """The module of a function, which may be a test's: nobody else can import those."""
    module = sys.modules.get(getattr(transform, "__module__", None) or "")
    place = getattr(module, "__file__", None)
    return None if place is None or "site-packages" in Path(place).parts else module


def travel_by_value(modules: Sequence[ModuleType]) -> None:
    """Have what modules define reach Spark's workers, which do not have them."""
    from pyspark import cloudpickle  # noqa: PLC0415 - when a test needs it

    for each in modules:
        cloudpickle.register_pickle_by_value(each)  # type: ignore[no-untyped-call]
