"""Where pipelines are deployed to, as `--target` says it. Pure.

local               this machine
spark://HOST:7077   a standalone cluster of Spark's, with the driver on this machine
sc://HOST:PORT      a server of Spark Connect: queries run there, and who follows them on this machine
k8s://https://HOST  Kubernetes: driver and executors are pods
yarn                a Hadoop cluster, by spark-submit
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from tidelog.spark.connect_session import ConnectError, server_of
from tidelog.spark.pipelines.errors import PipelineError

_STANDALONE = re.compile(r"spark://[^\s/,:]+:\d+(,[^\s/,:]+:\d+)*")
_KUBERNETES = re.compile(r"k8s://(https?://)?[^\s/:]+(:\d+)?/?")


class DeployError(PipelineError):
    """A target that is none, or that pipelines cannot be deployed to as they are."""


class Kind(Enum):
    LOCAL = "local"
    STANDALONE = "standalone"
    CONNECT = "connect"
    KUBERNETES = "kubernetes"
    YARN = "yarn"


@dataclass(frozen=True, slots=True)
class DeployTarget:
    kind: Kind
    master: str
    """Spark's own name of it."""

    @property
    def has_other_machines(self) -> bool:
        """Whether rows are read and written on machines that have not this one's disk and loopback."""
        return self.kind is not Kind.LOCAL

    @property
    def is_run_here(self) -> bool:
        """Whether the driver runs on this machine; elsewhere it is for other tools to start it."""
        return self.kind in {Kind.LOCAL, Kind.STANDALONE, Kind.CONNECT}


def parse_target(text: str) -> DeployTarget:
    """DeployError says which there are."""
    if text == "local" or re.fullmatch(r"local\[(\*|\d+)\]", text):
        return DeployTarget(Kind.LOCAL, "local[*]" if text == "local" else text)
    if _STANDALONE.fullmatch(text):
        return DeployTarget(Kind.STANDALONE, text)
    if _KUBERNETES.fullmatch(text):
        return DeployTarget(Kind.KUBERNETES, text.rstrip("/"))
    if text == "yarn":
        return DeployTarget(Kind.YARN, text)
    if text.startswith("sc://"):
        try:
            server_of(text)
        except ConnectError as error:
            raise DeployError(str(error)) from error
        if ";" in text:
            raise DeployError(
                "a token would be in files: give sc://HOST:PORT alone, and the token in SPARK_CONNECT_AUTHENTICATE_TOKEN"
            )
        return DeployTarget(Kind.CONNECT, text)
    raise DeployError(
        f"{text!r} is no target: expected local, spark://HOST:PORT, sc://HOST:PORT, k8s://https://HOST:PORT or yarn"
    )
