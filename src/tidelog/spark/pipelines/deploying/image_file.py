"""A Dockerfile for the driver and the executors of pipelines. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import PurePosixPath

from tidelog.spark.pipelines.debezium.decoder import Debezium
from tidelog.spark.pipelines.decoders import Avro, Protobuf
from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.sinks import ToDatabase, ToTable, ToTopic

HOME = "/opt/pipelines"
# That of the images of Apache Spark.
USER_ID = 185
_DATABASES = {"postgresql": "postgresql", "postgres": "postgresql", "mariadb": "mysql", "mysql": "mysql"}


def needed_extras(pipelines: Iterable[Pipeline]) -> list[str]:
    found = {"spark"}
    for pipeline in pipelines:
        decoders: list[object] = [each.decode for each in pipeline.sources]
        decoders += [
            each.encode for each in pipeline.sinks if isinstance(each, ToTopic) and not isinstance(each.encode, str)
        ]
        found |= {"avro" for each in decoders if isinstance(each, Avro) or _is_avro_of_debezium(each)}
        found |= {"protobuf" for each in decoders if isinstance(each, Protobuf)}
        for sink in pipeline.sinks:
            if isinstance(sink, ToTable) and sink.is_ours:
                found.add(sink.format.lower())
            elif isinstance(sink, ToDatabase):
                found |= {
                    extra for scheme, extra in _DATABASES.items() if sink.url.startswith((f"{scheme}:", f"{scheme}+"))
                }
    return sorted(found)


def _is_avro_of_debezium(decoder: object) -> bool:
    return isinstance(decoder, Debezium) and (decoder.registry is not None or decoder.avro is not None)


def dockerfile(pipelines: Iterable[Pipeline], files: Iterable[str], base: str) -> str:
    """`files` are copied beside one another, by their paths relative to the pipelines' own."""
    extras = ",".join(needed_extras(pipelines))
    copies = "\n".join(f"COPY [{_quoted(each)}, {_quoted(str(PurePosixPath(HOME) / each))}]" for each in files)
    return f"""\
# Driver and executors are this one image, so that they have the same Python and the same Spark.
ARG SPARK_IMAGE={base}
FROM ${{SPARK_IMAGE}}
USER root
RUN python3 -m pip install --no-cache-dir 'tidelog[{extras}]=={version("tidelog")}' && mkdir -p {HOME}
{copies}
WORKDIR {HOME}
USER {USER_ID}
"""


def default_base() -> str:
    """The image of Apache Spark of the release that is installed here."""
    return f"apache/spark:{version('pyspark')}-python3"


def _quoted(text: str) -> str:
    return f'"{text}"'
