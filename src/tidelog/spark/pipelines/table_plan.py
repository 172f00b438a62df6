"""The tables of a pipeline as Spark's own plans: sources, then views in the order in which they can be made, and the result.

    records   what several sources of one topic have in common: one read of it is for all of them
    checked   rows with what is expected of them; dead letters are among them
    usable    what others take

A part that fails leaves a sentence, and the others go on: what depends on it is read by Spark's parser alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, functions as F  # noqa: N812 - as everybody calls them

from tidelog.spark.pipelines.branches import Base
from tidelog.spark.pipelines.debezium.decoder import Debezium
from tidelog.spark.pipelines.definition import FromTopic, Pipeline
from tidelog.spark.pipelines.errors import DefinitionError
from tidelog.spark.pipelines.expectations import QUARANTINE, Expect
from tidelog.spark.pipelines.expected_rows import RECORD_FIELDS, dead_rows, judged, record_fields
from tidelog.spark.pipelines.plan_checks import check_condition, check_expression, check_syntax
from tidelog.spark.pipelines.query_options import as_text
from tidelog.spark.pipelines.row_steps import row_step
from tidelog.spark.pipelines.shared_rows import computed_once
from tidelog.spark.pipelines.sinks import Sink
from tidelog.spark.pipelines.source_rows import Records, checked_rows, flat_rows, good_rows
from tidelog.spark.pipelines.validation import CheckedPipeline
from tidelog.spark.pipelines.views import View, in_order, parameters_of, taken_by

_Made = TypeVar("_Made")


class Tried(Protocol):
    def __call__(self, where: str | None, step: Callable[[], _Made]) -> _Made | None:
        """What a step makes; None where Spark finds something wrong in it, which is kept as a sentence."""
        ...


@dataclass(frozen=True, slots=True)
class Table:
    """A source or a view. What is None could not be made."""

    name: str
    takes: Sequence[str]
    """Names of the tables that it takes from."""
    checked: DataFrame | None = None
    usable: DataFrame | None = None
    dead_letters: str | None = None
    expectations: Mapping[str, Expect] | None = None
    has_several_rows: bool = False
    """Of one record: it is one dead letter."""

    def dead_rows(self, pipeline: Pipeline) -> DataFrame:
        assert self.checked is not None
        assert self.dead_letters is not None
        several = self.has_several_rows
        return dead_rows(pipeline.name, self.dead_letters, self.expectations or {}, self.checked, has_several=several)


class TablePlan:
    """Made once for each query that reads, by way of `records`; one of several counts expectations."""

    def __init__(
        self,
        session: SparkSession,
        checked: CheckedPipeline,
        tried: Tried,
        records: Records,
        *,
        shared: frozenset[str] = frozenset(),
        counts: bool = True,
        reads_apart: bool = False,
    ) -> None:
        """`shared` are the names of tables that several branches take from. `reads_apart`: sources of one topic read it each by
        itself."""
        self.tables: dict[str, Table] = {}
        """By their names in small letters, each behind all that it takes from."""
        self._session = session
        self._checked = checked
        self._pipeline = checked.sound
        self._tried = tried
        self._records = records
        self._shared = shared
        self._counts = counts
        self._leads = {} if reads_apart else one_reads(self._pipeline.sources)
        for index, source in enumerate(self._pipeline.sources):
            self._add(self._source(index, source))
        for name in checked.unknown_views:
            self._add(Table(name, ()))
        for view in in_order(self._pipeline.views, self._known)[0]:
            self._add(self._view(view))

    def usable(self, name: str) -> DataFrame | None:
        found = self.tables.get(name.lower())
        return None if found is None else found.usable

    @property
    def with_dead_letters(self) -> list[Table]:
        return [each for each in self.tables.values() if each.dead_letters is not None and each.checked is not None]

    @property
    def bases(self) -> list[Base]:
        """What origins may be made of row by row, sources first."""
        return [Base(name, each.checked) for name, each in self.tables.items() if each.checked is not None]

    @property
    def made_by_row(self) -> frozenset[str]:
        """Views that are made of another table row by row: computed by each who takes from them, they come out the same."""
        views = {each.name.lower() for each in self._pipeline.views}
        return frozenset(
            name
            for name, each in self.tables.items()
            if name in views
            and each.checked is not None
            and any(base.name != name and row_step(each.checked, base.rows) is not None for base in self.bases)
        )

    def result(self) -> DataFrame | None:
        """What the transformation makes; without one the rows of the one source."""
        pipeline = self._pipeline
        transform = pipeline.transform
        if not self._checked.has_transform:
            return None
        if transform is None:
            return self.usable(pipeline.sources[0].view) if len(pipeline.sources) == 1 and not pipeline.views else None
        if not self._checked.has_all_sources:
            takes: Sequence[str] | None = None
        elif not pipeline.views:
            takes = [each.view for each in pipeline.sources]
        else:
            takes = taken_by(transform, self._known)
        return self._made("transform", transform, takes, by_name=bool(pipeline.views))

    def taken_by_sink(self, sink: Sink) -> Sequence[str]:
        """Names of tables that the rows of a sink are made of at once."""
        pipeline = self._pipeline
        if sink.of is not None:
            return (sink.of,)
        if pipeline.transform is None or not pipeline.views:
            return [each.view for each in pipeline.sources]
        return taken_by(pipeline.transform, pipeline.tables)

    @property
    def _known(self) -> list[str]:
        return [*self._pipeline.tables, *self._checked.unknown_views]

    def _add(self, table: Table) -> None:
        self.tables[table.name.lower()] = table
        if table.usable is not None and table.name.isidentifier():
            table.usable.createOrReplaceTempView(table.name)

    def _source(self, index: int, source: FromTopic) -> Table:
        session, pipeline = self._session, self._pipeline
        where = "source" if len(pipeline.sources) == 1 else f"source {index + 1}"
        table = Table(
            source.view,
            (),
            dead_letters=source.dead_letters,
            expectations=source.expectations,
            has_several_rows=isinstance(source.decode, Debezium),
        )
        rows = None
        if index not in self._checked.unknown_sources:
            read = self._read(index)
            table = replace(table, takes=() if read is None else (read,))
            rows = self._tried(where, lambda: flat_rows(source, self._records if read is None else self._read_by(read)))
        sound = self._conditions(where, source.expectations, rows)
        if rows is not None:
            # A condition that is wrong takes no column away.
            fit = source if sound else replace(source, expect={})
            flat = rows
            checked = self._tried(where, lambda: checked_rows(fit, flat, counts=self._counts))
            return self._with_rows(where, table, checked, source)
        if source.watermark is not None and source.watermark.expression is not None:
            self._tried(f"{where}: watermark", partial(check_expression, session, source.watermark.expression))
        return table

    def _read(self, index: int) -> str | None:
        """The table of the records that a source has in common with others, made by the first of them; None where it has none."""
        lead = self._leads.get(index)
        if lead is None:
            return None
        name = f"records of {lead.view}"
        if name.lower() not in self.tables:
            records = self._records(lead)
            whole = computed_once(records) if name.lower() in self._shared else records
            self._add(Table(name, (), checked=whole, usable=whole))
        return name

    def _read_by(self, name: str) -> Records:
        records = self.usable(name)
        assert records is not None, "it was made before"
        return lambda _: records

    def _view(self, view: View) -> Table:
        where = f"view {view.name}"
        takes = taken_by(view.query, self._known)
        table = Table(view.name, takes, dead_letters=view.dead_letters, expectations=view.expectations)
        rows = self._made(where, view.query, takes, by_name=True)
        sound = self._conditions(where, view.expectations, rows)
        if rows is None:
            return table
        found = rows
        checked: DataFrame | None = found
        if sound and view.expectations:
            checked = self._tried(where, lambda: _checked_view(view, found, counts=self._counts))
        return self._with_rows(where, table, checked, view)

    def _with_rows(self, where: str, table: Table, checked: DataFrame | None, declared: FromTopic | View) -> Table:
        if checked is None:
            return table
        whole = computed_once(checked) if table.name.lower() in self._shared else checked
        usable = self._tried(where, lambda: good_rows(declared, whole))
        return replace(table, checked=whole, usable=usable)

    def _conditions(self, where: str, expectations: Mapping[str, Expect], rows: DataFrame | None) -> bool:
        """Whether Spark finds nothing wrong with them."""
        found = [
            self._tried(f"{where}: expect {name!r}", partial(_checked_condition, self._session, rows, each.condition))
            for name, each in expectations.items()
        ]
        return None not in found

    def _made(self, where: str, query: object, takes: Sequence[str] | None, *, by_name: bool) -> DataFrame | None:
        """What SQL or a function makes of tables; of SQL over any that are unknown only the syntax is looked at."""
        frames = None if takes is None else {name: self.usable(name) for name in takes}
        if frames is not None and None not in frames.values():
            known = {name.lower(): each for name, each in frames.items() if each is not None}
            return self._tried(where, lambda: made_of(self._session, query, known, by_name=by_name))
        if isinstance(query, str):
            self._tried(where, partial(check_syntax, self._session, query))
        return None


def one_reads(sources: Sequence[FromTopic]) -> dict[int, FromTopic]:
    """Sources that read the same of the same topics, by their numbers, each with the one that stands for all of them: which has
    the headers of records, where any needs them."""
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, each in enumerate(sources):
        options = tuple(sorted((name.lower(), text) for name, text in as_text(each.options).items()))
        groups.setdefault((each.topic, each.pattern, each.bootstrap, options), []).append(index)
    found: dict[int, FromTopic] = {}
    for group in groups.values():
        own = [sources[index] for index in group]
        lead = next((each for each in own if each.dead_letters is not None), own[0])
        found |= {index: lead for index in group if len(group) > 1}
    return found


def made_of(session: SparkSession, query: object, frames: Mapping[str, DataFrame], *, by_name: bool) -> DataFrame:
    """`frames` are tables by their names in small letters: those that a function takes, by name or in order."""
    if isinstance(query, str):
        return session.sql(query)
    assert callable(query)
    try:
        if by_name:
            named = [each.name for each in parameters_of(query) or ()]
            result = query(**{name: frames[name.lower()] for name in named if name.lower() in frames})
        else:
            result = query(*frames.values())
    except PySparkException:
        raise
    except Exception as error:
        # It is the file's own code, and may do anything wrong.
        raise DefinitionError([f"the function raises {type(error).__name__}: {error}"]) from error
    if not isinstance(result, DataFrame):
        raise DefinitionError([f"the function returns {type(result).__name__}; it has to return a DataFrame"])
    return result


def _checked_condition(session: SparkSession, rows: DataFrame | None, condition: str) -> bool:
    check_condition(session, rows, condition)
    return True


def _checked_view(view: View, rows: DataFrame, *, counts: bool) -> DataFrame:
    sets_apart = any(each.action == QUARANTINE for each in view.expectations.values())
    missing = [name for name in RECORD_FIELDS if name not in record_fields(rows)]
    if sets_apart and missing:
        sentence = (
            "a row is set apart as the record that it came from, which is gone here: select record as well, as in"
            " SELECT record, ...; behind an aggregation, expect with warn, drop or fail"
        )
        raise DefinitionError([sentence])
    return judged(rows, view.name, view.expectations, is_exempt=F.lit(False), counts=counts)
