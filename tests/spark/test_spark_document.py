"""docs/spark.md is typed from top to bottom, into a Spark that runs already: `make compat` types it as it is."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

from pyspark.sql import SparkSession

from tests.support.documents import ROOT, page_of
from tests.support.typed_page import TypedPage
from tidelog.spark.sink.sink_options import NAMES as SINK_NAMES
from tidelog.spark.source.source_options import NAMES

DOCUMENT = ROOT / "docs" / "spark.md"


def test_the_programs_of_the_document_run(spark: SparkSession, tmp_path: Path) -> None:
    names: dict[str, object] = {}

    def run(program: str) -> str:
        # This Spark was started elsewhere: paths are not from the directory in which the page is typed.
        for path in ("backup", "checkpoints/copied"):
            program = program.replace(f'"{path}"', f'"{typed.home / path}"')
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(program, "document", "exec"), names)
        return printed.getvalue()

    with TypedPage(page_of("docs/spark.md"), tmp_path, run) as typed:
        typed.type_all()

    assert len(typed.page.programs) == 5


def test_every_option_is_described() -> None:
    prose = re.sub(r"^```.*?^```$", "", DOCUMENT.read_text(), flags=re.MULTILINE | re.DOTALL)
    described = set(re.findall(r"`([^`]+)`", prose))

    assert {*NAMES, *SINK_NAMES} <= described
