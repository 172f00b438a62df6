"""What keeps a pipeline from running. The text is one sentence for a person.

PipelineError
├── PipelineFileError   a file that cannot be loaded, or that has no pipeline
├── DefinitionError     a pipeline that cannot be as it is written
├── JavaMissingError    Spark needs Java, and there is none that serves
├── QueryFailedError    Spark has stopped a query
├── BackfillError       batches that are not replaced
├── DiffError           versions that cannot be compared
├── ReplayError         dead letters that cannot be sent again
└── PackageError        an archive that cannot be built
"""

from __future__ import annotations

import re

from tidelog.spark.pipelines.unfit_state import unfit_state

_PYTHON_ERROR = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception): (.+)$", re.MULTILINE)
_STREAM_FAILED = re.compile(r"terminated with exception: (.+)", re.DOTALL)
_CONDITION = re.compile(r"^\[[A-Z0-9_.]+\] ")
_JAVA_CALL = "An error occurred while calling"
_JAVA_ERROR = re.compile(r"^(?:: |Caused by: )[\w.$]+(?:Exception|Error): (.+)$", re.MULTILINE)
_SQL_STATE = re.compile(r"\s*SQLSTATE: \w+.*", re.DOTALL)


class PipelineError(Exception):
    """Anything that a person has to know about a pipeline."""


class PipelineFileError(PipelineError, ValueError):
    """Found while the file is loaded: one sentence, or several."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = list(problems)


class DefinitionError(PipelineError, ValueError):
    """One or more mistakes, each a sentence. Found before any job starts."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class JavaMissingError(PipelineError):
    """Said before Spark would say it in its own way."""


class QueryFailedError(PipelineError):
    """A query that ended with an error."""


class BackfillError(PipelineError):
    """Nothing was replaced, unless it says so."""


class DiffError(PipelineError):
    """Nothing is said about what was asked."""


class ReplayError(PipelineError):
    """Nothing has gone that is not told of as gone."""


class PackageError(PipelineError):
    """Something that the executors need is not there to be packed."""


def sentence_of(error: object) -> str:
    """The one sentence in an error of Spark's: without its traces, plans and codes.

    Where Python raised it inside of Spark, it is what Python said.
    """
    text = str(error).strip()
    if "Traceback (most recent call last)" in text:
        said = _PYTHON_ERROR.findall(text)
        if said:
            # Errors of workers come wrapped in others, the first one innermost.
            return str(said[0]).strip()
    if text.startswith(_JAVA_CALL):
        # What PySpark has no class for comes as Java's own, with its causes: the last one is the root.
        causes = _JAVA_ERROR.findall(text)
        text = str(causes[-1]).strip() if causes else text
    found = _STREAM_FAILED.search(text)
    if found is not None:
        text = found[1]
    if (unfit := unfit_state(text)) is not None:
        return unfit
    text = _CONDITION.sub("", _SQL_STATE.sub("", text)).strip()
    return text.split("\n\n", 1)[0].split("\n=== ", 1)[0].split(";\n", 1)[0].strip().replace("\n", " ")
