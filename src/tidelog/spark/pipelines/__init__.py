"""Pipelines on Spark in a few declarations: a topic in, columns decoded, SQL or a function, a topic or a table out.

    from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTopic

`tidelog pipeline run FILE` runs what a file defines. docs/pipelines.md has the whole story.
"""

from tidelog.spark.pipelines.decoders import Avro, Decoder, Json, Protobuf, Text
from tidelog.spark.pipelines.definition import FromTopic, Pipeline, ToTable, ToTopic, Watermark

__all__ = ["Avro", "Decoder", "FromTopic", "Json", "Pipeline", "Protobuf", "Text", "ToTable", "ToTopic", "Watermark"]
