"""What Spark would refuse only once a query starts, and what its parser says of text whose names nobody knows yet.

Spark has no other way to ask any of it: each check goes to its Java classes. Over Spark Connect there are none, and what is wrong
is told by the server when the query starts.
"""

from __future__ import annotations

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from tidelog.spark.connect_session import is_connect
from tidelog.spark.pipelines.errors import DefinitionError

# What a class has to be, one of them, for Spark to write a stream with it.
_WRITES_STREAMS = (
    "org.apache.spark.sql.connector.catalog.TableProvider",
    "org.apache.spark.sql.execution.datasources.FileFormat",
    "org.apache.spark.sql.sources.StreamSinkProvider",
)


def check_condition(session: SparkSession, rows: DataFrame | None, condition: str) -> None:
    """Over these rows; where there are none, only as Spark reads it."""
    if rows is not None:
        rows.where(F.expr(condition))
    else:
        check_expression(session, condition)


def check_syntax(session: SparkSession, text: str) -> None:
    """Read a query in SQL without asking what its names mean."""
    if not is_connect(session):
        session._jsparkSession.sessionState().sqlParser().parsePlan(text)  # noqa: SLF001 - Spark has no other way to ask


def check_expression(session: SparkSession, text: str) -> None:
    """The same for an expression, which Spark reads only when it meets rows."""
    if not is_connect(session):
        session._jsparkSession.sessionState().sqlParser().parseExpression(text)  # noqa: SLF001


def check_format(session: SparkSession, name: str) -> None:
    """Whether Spark has this format, and can write a stream in it. Without it the query would fail when it starts."""
    jvm = None if is_connect(session) else session._jvm  # noqa: SLF001 - Spark has no other way to ask
    if jvm is None:
        return
    try:
        found = jvm.org.apache.spark.sql.execution.datasources.DataSource.lookupDataSource(
            name,
            session._jsparkSession.sessionState().conf(),  # noqa: SLF001
        )
    except (Py4JJavaError, PySparkException) as error:
        raise DefinitionError(
            [
                f"Spark has no format {name}: the jar that brings it is not there; spark= can name it, as spark.jars.packages"
            ]
        ) from error
    if not any(jvm.java.lang.Class.forName(each).isAssignableFrom(found) for each in _WRITES_STREAMS):
        raise DefinitionError([f"Spark writes no streams in the format {name}"])


def check_streaming(session: SparkSession, rows: DataFrame, output_mode: str) -> None:
    """What Spark would refuse when the query starts, such as windows without a watermark in append mode."""
    jvm = None if is_connect(session) else session._jvm  # noqa: SLF001 - Spark has no other way to ask before a query starts
    if jvm is None:
        return
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, output_mode.capitalize())()
    plan = rows._jdf.queryExecution().analyzed()  # noqa: SLF001
    jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, mode)
