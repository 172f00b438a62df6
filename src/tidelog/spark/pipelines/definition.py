"""What a pipeline is, as a file says it: data that knows nothing of Spark and of clusters.

    Pipeline    from FromTopic, one or several, through views (`views`) and SQL or a function, to one or several sinks (`sinks`)

In the transformation each source is a table of the columns that its values are decoded to, and of one struct more, `record`:
key, value, topic, partition, offset, timestamp, timestampType, headers. Nothing is checked here, not even whether an argument
exists (`declaration`): `validation` finds all mistakes at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, cast

from tidelog.spark.pipelines.declaration import Declaration, lenient
from tidelog.spark.pipelines.decoders import Decoder
from tidelog.spark.pipelines.expectations import Expect, as_expectations
from tidelog.spark.pipelines.sinks import Sink, is_decided
from tidelog.spark.pipelines.views import View

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    Transform = str | Callable[..., DataFrame]

AVAILABLE_NOW = "available_now"
DEFAULT_MASTER = "local[*]"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
RECORD = "record"


@lenient
@dataclass(frozen=True, slots=True)
class Watermark(Declaration):
    """How late events may be: Spark's `withWatermark`, for windows and for state that has an end."""

    column: str
    delay: str
    """As in '10 minutes'."""
    expression: str | None = None
    """Makes the column, where the values have none: 'timestamp_millis(at_ms)', or 'record.timestamp'."""

    def applied(self, rows: DataFrame) -> DataFrame:
        """The rows of a source with their watermark."""
        if self.expression is not None:
            from pyspark.sql import functions as F  # noqa: N812, PLC0415

            rows = rows.withColumn(self.column, F.expr(self.expression))
        return rows.withWatermark(self.column, self.delay)


@lenient
@dataclass(frozen=True, slots=True)
class FromTopic(Declaration):
    """Where records come from."""

    topic: str | None = None
    """One, or several as in 'orders,payments'."""
    decode: Decoder | None = None
    """Without it there is only `record`."""
    _: KW_ONLY
    pattern: str | None = None
    """A regular expression for whole names, instead of a topic."""
    name: str | None = None
    """What SQL calls it. Without it the topic's name, with _ for what cannot be in a name."""
    expect: Mapping[str, str | Expect] = field(default_factory=dict)
    """Conditions in SQL by what they say; `Expect` has what becomes of records for which one does not hold: dead letters, unless
    it says otherwise."""
    dead_letters: str | None = None
    """The topic for what cannot be decoded or is not as expected. Without it such a value stops the pipeline."""
    watermark: Watermark | None = None
    options: Mapping[str, str | int | bool] = field(default_factory=dict, repr=False)
    """More of the source's, such as maxOffsetsPerTrigger. It starts at earliest and reads what is committed, unless told."""
    bootstrap: str | None = None
    """Where it is another cluster than the pipeline's."""

    @property
    def expectations(self) -> dict[str, Expect]:
        return as_expectations(self.expect)

    @property
    def view(self) -> str:
        return self.name or re.sub(r"\W", "_", self.topic or "", flags=re.ASCII)


@lenient
@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline(Declaration):
    """One job: what `tidelog pipeline run` runs."""

    name: str
    """Also the name of its query, and of the consumer group that shows how far it is."""
    source: FromTopic | Sequence[FromTopic]
    transform: Transform | None = None
    """SQL over the sources by their names; or a function of their DataFrames, in order, that returns one. With views SQL is over
    those as well, and the parameters of a function are their names."""
    views: Sequence[View] = ()
    """Tables between sources and sinks, in any order."""
    sink: Sink | Sequence[Sink]
    """One or several. A batch counts in all of them or in none."""
    output_mode: str = "append"
    """append, update or complete: Spark's own words."""
    trigger: str | None = None
    """As in '10 seconds': how often a batch starts. None for as soon as the last one is done; available_now to end then."""
    checkpoint: str | None = None
    """A directory, beside the file unless absolute; or a URL. Without it checkpoints/NAME. It makes a restart go on."""
    staging: str | None = None
    """Where rows for tables and databases wait for the decision: a directory, or s3://BUCKET/...; else in the checkpoint."""
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Of the object store for staging, and of those sinks that say none of their own."""
    bootstrap: str | None = None
    """The cluster, unless --bootstrap names another."""
    kafka: Mapping[str, str | int | bool] = field(default_factory=dict, repr=False)
    """Options of all its clients by Kafka's names, such as security.protocol. Secrets as references: ${env:PASSWORD}."""
    master: str = DEFAULT_MASTER
    """Spark's. The one line to change for a cluster of Spark's."""
    spark: Mapping[str, str | int | bool] = field(default_factory=dict)
    """Configuration of the Spark session, which all pipelines of a file share."""

    def moved_to(self, bootstrap: str | None, kafka: Mapping[str, str]) -> Pipeline:
        """The same for another cluster, or another way in, with the same mistakes."""
        own = self.kafka if isinstance(self.kafka, dict) else {}
        moved = replace(self, bootstrap=bootstrap or self.bootstrap, kafka={**own, **kafka} if kafka else self.kafka)
        object.__setattr__(moved, "mistakes", self.mistakes)
        return moved

    @property
    def sources(self) -> Sequence[FromTopic]:
        # Whatever else it is counts as one, for the sentence that says so.
        several = isinstance(self.source, list | tuple)
        return tuple(cast("Sequence[FromTopic]", self.source)) if several else (cast("FromTopic", self.source),)

    @property
    def tables(self) -> list[str]:
        """What SQL calls sources and views."""
        return [*(each.view for each in self.sources), *(each.name for each in self.views)]

    @property
    def sinks(self) -> Sequence[Sink]:
        several = isinstance(self.sink, list | tuple)
        return tuple(cast("Sequence[Sink]", self.sink)) if several else (cast("Sink", self.sink),)

    @property
    def is_decided(self) -> bool:
        """Whether one decision of ours ends each batch in all sinks; else there is one sink, which is Spark's own."""
        return all(is_decided(each) for each in self.sinks)

    @property
    def dead_letter_topics(self) -> list[str]:
        """Of sources and views, each once."""
        named = [*(each.dead_letters for each in self.sources), *(each.dead_letters for each in self.views)]
        return list(dict.fromkeys(each for each in named if each is not None))

    @property
    def has_dead_letters(self) -> bool:
        return bool(self.dead_letter_topics)

    @property
    def dead_letters_query(self) -> str:
        """The name of the query for dead letters, and of its group."""
        return f"{self.name}.dead-letters"
