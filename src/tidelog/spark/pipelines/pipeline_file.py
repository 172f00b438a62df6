"""A file with pipelines: Python that is run, and the `Pipeline` objects that it leaves in its names, alone or several in a list;
or SQL with a header for each of them (`sql_file`).

Modules beside the file may be imported. Functions of theirs and of the file itself reach Spark's workers by value: nothing has
to be installed there for them.
"""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.errors import PipelineFileError
from tidelog.spark.pipelines.sql_file import pipelines_of_sql

_SQL = ".sql"
# All of it is read before anything is known of it.
SQL_BYTES_MAX = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class PipelineFile:
    path: Path
    pipelines: Sequence[Pipeline]
    modules: Sequence[ModuleType]
    """The file's own, and those beside it that it has imported; none of one in SQL."""

    @property
    def directory(self) -> Path:
        return self.path.parent

    def checkpoint_of(self, pipeline: Pipeline) -> str:
        """The directory of all that a restart needs, absolute; or a URL as it is."""
        return self.beside(pipeline.checkpoint or f"checkpoints/{pipeline.name}")

    def beside(self, place: str) -> str:
        """A path, relative to the file; a URL as it is."""
        return str(self.directory / place) if is_local(place) else place


def is_local(place: str) -> bool:
    """Whether it is a path, and not a URL."""
    return "://" not in place


def load_pipelines(path: str | Path, only: Sequence[str] = ()) -> PipelineFile:
    """Run a file, and find its pipelines; those of these names, if any are given. PipelineFileError says what is wrong."""
    file = Path(path).absolute()
    if not file.is_file():
        raise PipelineFileError(f"there is no file {path}")
    before = set(sys.modules)
    modules: list[ModuleType] = []
    if file.suffix == _SQL:
        pipelines = _read_sql(file, path)
    else:
        if str(file.parent) not in sys.path:
            sys.path.insert(0, str(file.parent))
        modules.append(_run(file))
        pipelines = _pipelines_of(modules[0], path)
    if not pipelines:
        raise PipelineFileError(f"{path} defines no pipeline: give a name of it a Pipeline(...), or a list of them")
    if only:
        unknown = sorted(set(only) - {each.name for each in pipelines})
        if unknown:
            known = ", ".join(each.name for each in pipelines)
            raise PipelineFileError(f"{path} has no pipeline {unknown[0]}; it has {known}")
        pipelines = [each for each in pipelines if each.name in only]
    beside = [
        imported
        for name, imported in sys.modules.items()
        if modules and name not in before and _is_in(imported, file.parent) and imported is not modules[0]
    ]
    return PipelineFile(file, pipelines, [*modules, *beside])


def _read_sql(file: Path, path: str | Path) -> list[Pipeline]:
    try:
        if file.stat().st_size > SQL_BYTES_MAX:
            raise PipelineFileError(f"{path} is larger than {SQL_BYTES_MAX} bytes, which no pipelines are")
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineFileError(f"{path} cannot be read: {error}") from error
    pipelines, problems = pipelines_of_sql(text, lambda place: (file.parent / place).read_bytes())
    if problems:
        raise PipelineFileError(*(f"{path}, {each}" for each in problems))
    return pipelines


def _pipelines_of(module: ModuleType, path: str | Path) -> list[Pipeline]:
    """Each once, in the order of the file. What else is in a list of pipelines is a mistake."""
    found: dict[int, Pipeline] = {}
    for name, value in vars(module).items():
        held = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else [value]
        several = [each for each in held if isinstance(each, Pipeline)]
        others = sorted({type(each).__name__ for each in held if not isinstance(each, Pipeline)})
        if several and others:
            raise PipelineFileError(f"{path}: {name} holds pipelines, and beside them {', '.join(others)}")
        found |= {id(each): each for each in several}
    return list(found.values())


def _run(file: Path) -> ModuleType:
    # A name that no other module has; it is known under it while Spark looks for where functions come from.
    name = f"tidelog_pipeline_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise PipelineFileError(f"{file} is no Python file: its name has to end with .py, or with .sql for one in SQL")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise PipelineFileError(f"{error.filename}, line {error.lineno}: {error.msg}") from None
    except Exception as error:
        # Whatever the file does wrong, its own line says where.
        lines = [each for each in traceback.extract_tb(error.__traceback__) if each.filename == str(file)]
        where = f"{file}, line {lines[-1].lineno}" if lines else str(file)
        raise PipelineFileError(f"{where}: {type(error).__name__}: {error}") from error
    return module


def _is_in(module: ModuleType, directory: Path) -> bool:
    place = getattr(module, "__file__", None)
    return place is not None and Path(place).is_relative_to(directory) and "site-packages" not in Path(place).parts
