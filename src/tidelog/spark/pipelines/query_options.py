"""What a pipeline's definition makes of options for the source and the sink. Pure.

Two things differ from what a query without a pipeline has: it starts at the earliest records, and it reads what is committed.
A pipeline counts all records, and those of an aborted transaction never were any.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.spark.client_settings import PREFIX
from tidelog.spark.pipelines.definition import DEFAULT_BOOTSTRAP, FromTopic, Pipeline
from tidelog.spark.pipelines.sinks import ToTopic

_STARTS = ("startingoffsets", "startingoffsetsbytimestamp", "startingtimestamp")

# Options that the definition has fields for, by their lower-case names.
SOURCE_FIELDS = {
    "subscribe": "the topic",
    "subscribepattern": "pattern=",
    "kafka.bootstrap.servers": "bootstrap=",
    "kafka.group.id": "the name of the pipeline",
}
CLIENT_FIELDS = {
    "bootstrap.servers": "bootstrap=",
    "group.id": "the name of the pipeline",
}
SINK_FIELDS = {
    "topic": "the topic",
    "delivery": "delivery=",
    "kafka.bootstrap.servers": "bootstrap=",
    "checkpointlocation": "checkpoint=",
    "queryname": "the name of the pipeline",
}


def source_options(pipeline: Pipeline, source: FromTopic, *, group_id: str) -> dict[str, str]:
    """Options of the source for one of a pipeline's topics, read on behalf of a group."""
    chosen = as_text(source.options)
    lower = {name.lower() for name in chosen}
    options = {
        "kafka.bootstrap.servers": source.bootstrap or pipeline.bootstrap or DEFAULT_BOOTSTRAP,
        "kafka.group.id": group_id,
    }
    if source.topic is not None:
        options["subscribe"] = source.topic
    if source.pattern is not None:
        options["subscribePattern"] = source.pattern
    if not lower.intersection(_STARTS):
        options["startingOffsets"] = "earliest"
    if "kafka.isolation.level" not in lower:
        options["kafka.isolation.level"] = "read_committed"
    sets_apart = source.dead_letters is not None or any(each.dead_letters is not None for each in pipeline.views)
    if sets_apart and "includeheaders" not in lower:
        # A dead letter has all that the record had.
        options["includeHeaders"] = "true"
    return {**client_options(pipeline), **options, **chosen}


def client_options(pipeline: Pipeline) -> dict[str, str]:
    """What all clients of a pipeline have, as options of the source and the sink."""
    return {f"{PREFIX}{name}": text for name, text in as_text(pipeline.kafka).items()}


def sink_options(pipeline: Pipeline, sink: ToTopic) -> dict[str, str]:
    options = {"kafka.bootstrap.servers": cluster_of(pipeline, sink), "delivery": sink.delivery}
    # Where the rows have the columns of a record, each may say its topic; the option would win.
    if sink.topic:
        options["topic"] = sink.topic
    return {**client_options(pipeline), **options, **as_text(sink.options)}


def cluster_of(pipeline: Pipeline, sink: ToTopic) -> str:
    """The nodes of the cluster that a sink writes to."""
    return sink.bootstrap or own_cluster(pipeline)


def own_cluster(pipeline: Pipeline) -> str:
    return pipeline.bootstrap or DEFAULT_BOOTSTRAP


def decisions_bootstrap(pipeline: Pipeline) -> str:
    """The cluster of the topic of decisions: the pipeline's own. That of a topic which is the only sink is with its records, as
    it always was."""
    sinks = pipeline.sinks
    return (
        cluster_of(pipeline, sinks[0]) if len(sinks) == 1 and isinstance(sinks[0], ToTopic) else own_cluster(pipeline)
    )


def decision_options(pipeline: Pipeline) -> dict[str, str]:
    """Options for whoever decides, as a sink of that cluster has them."""
    for each in pipeline.sinks:
        if isinstance(each, ToTopic) and cluster_of(pipeline, each) == decisions_bootstrap(pipeline):
            return {name: text for name, text in sink_options(pipeline, each).items() if name != "topic"}
    return {**client_options(pipeline), "kafka.bootstrap.servers": decisions_bootstrap(pipeline)}


def dead_letter_options(pipeline: Pipeline) -> dict[str, str]:
    """Dead letters go where the pipeline's own rows would go, with the same care; each row says its topic."""
    options = {**client_options(pipeline), "kafka.bootstrap.servers": own_cluster(pipeline)}
    first = next((each for each in pipeline.sinks if isinstance(each, ToTopic)), None)
    if first is not None:
        options["delivery"] = first.delivery
        options |= {name: text for name, text in as_text(first.options).items() if name.lower() != "includetimestamp"}
        options["kafka.bootstrap.servers"] = cluster_of(pipeline, first)
    return options


def letter_sinks(pipeline: Pipeline) -> list[ToTopic]:
    """The topics of dead letters, as sinks beside the pipeline's own: on the cluster of its first topic, by the same producer."""
    first = next((each for each in pipeline.sinks if isinstance(each, ToTopic)), None)
    options = {} if first is None else {n: text for n, text in first.options.items() if n.lower() != "includetimestamp"}
    place = None if first is None else first.bootstrap
    return [ToTopic(each, encode="columns", options=options, bootstrap=place) for each in pipeline.dead_letter_topics]


def as_text(options: Mapping[str, str | int | bool]) -> dict[str, str]:
    """Options as Spark takes them."""
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value).strip() for name, value in options.items()
    }
