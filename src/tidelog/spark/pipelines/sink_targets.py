"""What a decision names, made of what a file declares: targets with all that an end needs, and where rows are staged. Pure.

Paths are absolute from here on: whoever ends a decision may run elsewhere, by another file or none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tidelog.spark.outputs.staged import Changes, Target
from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.errors import DefinitionError
from tidelog.spark.pipelines.query_options import as_text, cluster_of, decisions_bootstrap, sink_options
from tidelog.spark.pipelines.sinks import Changing, Sink, ToDatabase, ToFiles, ToTable, ToTopic

Beside = Callable[[str], str]
"""Makes a path absolute, relative to the pipeline's file; a URL stays as it is."""

_LOCAL_PATH = ":///"
# A reference, which nobody has looked up yet, and what is no file.
_NO_PATH = ("${", ":memory:")
_KINDS = {"postgres": "postgresql", "mysql": "mariadb"}
_STAGING = "staging"


class StagedSink(NamedTuple):
    """A sink that is no topic, as its kind is made of it."""

    label: str
    target: Target
    staging: str
    staging_storage: dict[str, str]


def staged_sinks(pipeline: Pipeline, checkpoint: str, beside: Beside) -> list[StagedSink]:
    """In the order in which they are ended: tables, databases, then files, each as declared.

    Where a sink stages is also who owns what is staged: a sweep there removes whatever its own batches do not name. So a place
    that several pipelines are told to stage in has a directory for each.
    """
    own = f"{checkpoint}/{_STAGING}"
    staging = own if pipeline.staging is None else f"{beside(pipeline.staging).rstrip('/')}/{pipeline.name}"
    return [
        StagedSink(each.label, target_of(pipeline, each, beside), f"{staging}/{each.label}", dict(pipeline.storage))
        for each in in_order(pipeline)
        if not isinstance(each, ToTopic)
    ]


def chosen_sink(pipeline: Pipeline, name: str | None) -> Sink:
    """The one of this name; without one any of them, where all take the same rows. DefinitionError where that is no answer."""
    labels = ", ".join(each.label for each in pipeline.sinks)
    if name is None:
        if len({(each.of or "").lower() for each in pipeline.sinks}) > 1:
            raise DefinitionError(
                [f"{pipeline.name}: its sinks take from different tables: choose one of {labels} with --sink"]
            )
        return pipeline.sinks[0]
    for each in pipeline.sinks:
        if each.label == name:
            return each
    raise DefinitionError([f"{pipeline.name} has no sink {name}: it has {labels}"])


def in_order(pipeline: Pipeline) -> list[Sink]:
    """As their batches end: topics last, since whoever follows them may look into the tables."""
    ranks = {ToTable: 0, ToDatabase: 1, ToFiles: 2, ToTopic: 3}
    return sorted(pipeline.sinks, key=lambda each: ranks[type(each)])


def target_of(pipeline: Pipeline, sink: ToTable | ToFiles | ToDatabase, beside: Beside) -> Target:
    match sink:
        case ToFiles():
            return Target(
                "files",
                beside(sink.path),
                partition_by=tuple(sink.partition_by),
                storage=dict(sink.storage or pipeline.storage),
            )
        case ToTable():
            is_catalog = sink.format.lower() == "iceberg"
            catalog = _catalog_properties(sink.catalog, beside)
            return Target(
                sink.format.lower(),
                catalog.get("uri", "") if is_catalog else beside(sink.path or ""),
                table=sink.name or "" if is_catalog else "",
                partition_by=tuple(sink.partition_by),
                changes=changes_of(sink),
                widens=sink.widen,
                options={**catalog, **as_text(sink.options)},
                storage=dict(sink.storage or pipeline.storage),
            )
        case ToDatabase():
            scheme = sink.url.partition(":")[0].partition("+")[0]
            return Target(
                _KINDS.get(scheme, scheme),
                _database_place(sink.url, beside),
                table=sink.table,
                changes=changes_of(sink),
                widens=sink.widen,
                options=as_text(sink.options),
            )


def changes_of(sink: Changing) -> Changes | None:
    return Changes(tuple(sink.merge_on), sink.sequence_by, sink.history) if sink.merge_on else None


def cluster_target(pipeline: Pipeline, sink: ToTopic) -> Target | None:
    """The cluster of a topic as a decision names it; None where the decisions are on the same one."""
    place = cluster_of(pipeline, sink)
    if place == decisions_bootstrap(pipeline):
        return None
    settings = {
        name.lower().removeprefix("kafka."): text
        for name, text in sink_options(pipeline, sink).items()
        if name.lower().startswith("kafka.") and name.lower() != "kafka.bootstrap.servers"
    }
    return Target("topic", place, options=settings)


def _database_place(url: str, beside: Beside) -> str:
    """A database in a file lies beside the pipeline's, unless its path is absolute: sqlite:////var/orders.db."""
    scheme, separator, path = url.partition(_LOCAL_PATH)
    if scheme.partition("+")[0] != "sqlite" or not separator or not path or path.startswith(_NO_PATH):
        return url
    return f"{scheme}{separator}{beside(path)}"


def _catalog_properties(catalog: Mapping[str, str], beside: Beside) -> dict[str, str]:
    """The database of a SQL catalog, and its warehouse, as everything else that lies in files. To a REST catalog a warehouse is a
    name, or a place of its own."""
    found = dict(catalog)
    uri = found.get("uri", "")
    if found.get("type", "") == "rest" or uri.startswith(("http://", "https://")):
        return found
    if uri:
        found["uri"] = _database_place(uri, beside)
    warehouse = found.get("warehouse", "")
    if warehouse and not warehouse.startswith(("file:", *_NO_PATH)):
        found["warehouse"] = beside(warehouse)
    return found
