"""Pipelines on Spark in a few declarations: topics in, columns decoded, SQL or a function, topics, tables and databases out.

    from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTopic

`tidelog pipeline run FILE` runs what a file defines. docs/pipelines.md has the whole story.
"""

from tidelog.spark.pipelines.debezium.decoder import Debezium
from tidelog.spark.pipelines.decoders import Avro, Decoder, Encoder, Json, Protobuf, Text
from tidelog.spark.pipelines.definition import FromTopic, Pipeline, Watermark
from tidelog.spark.pipelines.expectations import Expect
from tidelog.spark.pipelines.registry import Registry
from tidelog.spark.pipelines.sinks import ToDatabase, ToFiles, ToTable, ToTopic
from tidelog.spark.pipelines.views import View

__all__ = [
    "Avro",
    "Debezium",
    "Decoder",
    "Encoder",
    "Expect",
    "FromTopic",
    "Json",
    "Pipeline",
    "Protobuf",
    "Registry",
    "Text",
    "ToDatabase",
    "ToFiles",
    "ToTable",
    "ToTopic",
    "View",
    "Watermark",
]
