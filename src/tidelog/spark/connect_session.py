"""Sessions of Spark Connect: clients of a Spark that runs elsewhere, with no Java of it in this process."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "sc://"
_PORT = 15002
MADE_ALIKE = {
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
}
"""Configuration of a session of Spark Connect in which batches are written."""
_TIMEOUT_S = 10.0


class ConnectError(Exception):
    """A server that cannot be had, in one sentence."""


def is_connect(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def server_of(url: str) -> str:
    """Its address, without what else the URL says, a token perhaps. ConnectError for what is no URL of a server."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or _PORT
    except ValueError as error:
        raise ConnectError(f"{url.partition(';')[0]} is no address of Spark Connect: {error}") from error
    if parts.scheme != "sc" or not host:
        raise ConnectError(f"{url.partition(';')[0]} is no address of Spark Connect: expected sc://HOST:PORT")
    return f"{host}:{port}"


def connect(url: str, conf: Mapping[str, str]) -> SparkSession:
    """A session there, with this configuration. ConnectError; whatever Spark raises."""
    server = server_of(url)
    host, _, port = server.rpartition(":")
    try:
        # Spark's own client would try for minutes.
        socket.create_connection((host, int(port)), _TIMEOUT_S).close()
    except OSError as error:
        raise ConnectError(f"no Spark Connect server answers at {server}: {error.strerror or error}") from error
    try:
        import grpc  # type: ignore[import-untyped]  # noqa: F401, PLC0415 - whether it is there
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError as error:
        raise ConnectError(f"Spark Connect needs {error.name}: pip install 'pyspark[connect]'") from error
    session = SparkSession.builder.remote(url).getOrCreate()
    for name, value in conf.items():
        session.conf.set(name, value)
    return session
