"""Steps that choose rows and compute columns, each of one row: then a row, and all that several such steps make of it, are one.

Spark has no way to ask that, or to take a step apart, but its own plans: each call goes to its Java classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession

from tidelog.spark.connect_session import is_connect

# Names of other tables, and how late rows may be: of no account to a row.
_PASSED_OVER = frozenset({"SubqueryAlias", "View", "EventTimeWatermark"})
_OF_ONE_ROW = frozenset({"Project", "Filter"})
# Before a function in Python sees rows, Spark has computed it for all of them; a query in an expression is of other rows.
_ELSEWHERE = ("PYTHON_UDF", "PLAN_EXPRESSION")
_STATEFUL = frozenset({"Aggregate", "Deduplicate", "DeduplicateWithinWatermark", "Distinct", "Join", "GlobalLimit"})


class RowStep(NamedTuple):
    """What a step makes of a row."""

    columns: Sequence[Column]
    condition: Column | None
    """For which rows it makes anything."""


def row_step(made: DataFrame, base: DataFrame) -> RowStep | None:
    """How rows are made of those of `base`; None where it is not row by row, or not by what can be put into one expression, or
    nobody can see it: over Spark Connect plans are the server's."""
    if is_connect(base.sparkSession):
        return None
    plans = _Plans(base.sparkSession)
    found = plans.cut(plans.of(made), plans.of(base))
    if found is None:
        return None
    merged = plans.merged(found)
    if merged is None:
        return None
    expressions, condition = merged
    if not all(plans.is_of_one_row(each) for each in (*expressions, *([] if condition is None else [condition]))):
        return None
    return RowStep([plans.column(each) for each in expressions], None if condition is None else plans.column(condition))


def is_stateful(rows: DataFrame) -> bool:
    """Whether Spark keeps anything from one batch for the next to make these rows."""
    plans = _Plans(rows.sparkSession)
    return any(_keeps_state(each, plans) for each in plans.nodes(plans.of(rows)))


def has_watermark(rows: DataFrame) -> bool:
    """Whether one was declared on the way to these rows."""
    plans = _Plans(rows.sparkSession)
    return any(each.nodeName() == "EventTimeWatermark" for each in plans.nodes(plans.of(rows)))


def topics_in(rows: DataFrame) -> list[frozenset[str]]:
    """The topics of each place where a plan names a source, as far as it names topics. By these places, in their order, Spark
    knows sources in a checkpoint, though what several of them name is read once."""
    plans = _Plans(rows.sparkSession)
    leaves = [each for each in plans.nodes(plans.of(rows)) if each.isStreaming() and not plans.items(each.children())]
    found = [str(each.extraOptions().getOrDefault("subscribe", "")) for each in leaves]
    return [frozenset(name.strip() for name in each.split(",") if name.strip()) for each in found]


def has_chance(rows: DataFrame) -> bool:
    """Whether any value is by chance (rand, uuid, shuffle): Spark draws another one for each step that takes from the rows."""
    plans = _Plans(rows.sparkSession)
    chance = plans.pattern("EXPRESSION_WITH_RANDOM_SEED")
    return any(
        each.containsPattern(chance) for node in plans.nodes(plans.of(rows)) for each in plans.items(node.expressions())
    )


def _keeps_state(node: Any, plans: _Plans) -> bool:
    name = str(node.nodeName())
    if name == "Join":
        return all(each.isStreaming() for each in plans.items(node.children()))
    return name in _STATEFUL or "State" in name or ("InPandas" in name and "Group" in name)


class _Plans:
    """Spark's plans and expressions."""

    def __init__(self, session: SparkSession) -> None:
        self._jvm: Any = session._jvm  # noqa: SLF001 - Spark has no other way to ask

    def of(self, rows: DataFrame) -> Any:
        return rows._jdf.queryExecution().analyzed()  # noqa: SLF001

    def items(self, found: Any) -> list[Any]:
        return list(self._jvm.scala.jdk.javaapi.CollectionConverters.asJava(found))

    def nodes(self, plan: Any) -> Iterator[Any]:
        yield plan
        for each in self.items(plan.children()):
            yield from self.nodes(each)

    def cut(self, plan: Any, base: Any) -> Any | None:
        """The same plan with nothing below `base`; None where more than rows, one by one, lead there."""
        if plan.equals(base):
            none = self._seq([])
            return self._logical("LocalRelation")(base.output(), none, False, self._jvm.scala.Option.empty())
        name = plan.nodeName()
        if name not in _PASSED_OVER | _OF_ONE_ROW:
            return None
        below = self.cut(self.items(plan.children())[0], base)
        if below is None or name in _PASSED_OVER:
            return below
        return plan.withNewChildren(self._seq([below]))

    def merged(self, plan: Any) -> tuple[list[Any], Any | None] | None:
        """Expressions over the base, and the condition, of a plan that was cut; None where Spark merges it no further."""
        rules = self._package("optimizer")
        before = None
        while before is None or not plan.fastEquals(before):
            before, plan = plan, rules.CollapseProject.apply(rules.PushDownPredicates.apply(plan), True)
        expressions = self.items(plan.output())
        if plan.nodeName() == "Project":
            expressions, plan = self.items(plan.projectList()), self.items(plan.children())[0]
        condition = None
        if plan.nodeName() == "Filter":
            condition, plan = plan.condition(), self.items(plan.children())[0]
        return (expressions, condition) if plan.nodeName() == "LocalRelation" else None

    def is_of_one_row(self, expression: Any) -> bool:
        return expression.deterministic() and not any(
            expression.containsPattern(self.pattern(each)) for each in _ELSEWHERE
        )

    def pattern(self, name: str) -> Any:
        return getattr(self._package("trees").TreePattern, name)()

    def column(self, expression: Any) -> Column:
        from pyspark.sql.classic.column import Column as OwnColumn  # noqa: PLC0415 - of a session in this process

        return OwnColumn(self._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))

    def _seq(self, items: Sequence[Any]) -> Any:
        found = self._jvm.java.util.ArrayList()
        for each in items:
            found.add(each)
        return self._jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toSeq()

    def _logical(self, name: str) -> Any:
        return getattr(self._package("plans").logical, name)

    def _package(self, name: str) -> Any:
        return getattr(self._jvm.org.apache.spark.sql.catalyst, name)
