"""`KafkaContainer` with the interface of testcontainers-python's, without Docker: a suite moves over by one changed import.

    from tidelog.testing import KafkaContainer              # was: from testcontainers.kafka import KafkaContainer

    with KafkaContainer() as kafka:
        Producer({"bootstrap.servers": kafka.get_bootstrap_server()})

What is behind it is an `EmbeddedCluster`. The image's name is taken and says nothing here; `with_env("KAFKA_NUM_PARTITIONS",
"3")` configures the node as it does the images of Apache Kafka and Confluent. What only a container has (volumes, networks,
commands, logs) is refused in one sentence.
"""

from __future__ import annotations

import re
from types import TracebackType
from typing import NoReturn, Self

from tidelog.broker.config.image_variables import key_of
from tidelog.broker.node.local_cluster import HOST
from tidelog.testing.embedded_cluster import EmbeddedCluster
from tidelog.testing.errors import ClusterError

KAFKA_PORT = 9093
"""The port that clients are given in the container of testcontainers-python."""

# What the images are told and what is decided here: where the node listens, and what it is made of.
_DECIDED_HERE = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dirs",
        "node.id",
        "process.roles",
    }
)
_CLUSTER_ID = re.compile(r"[A-Za-z0-9_-]{22}")


class KafkaContainer:
    """One node. `start` and `stop`, or `with`."""

    def __init__(
        self, image: str = "tidelog", port: int = KAFKA_PORT, *, security: str | None = None, **refused: object
    ) -> None:
        """`security` is Tidelog's own: see `EmbeddedCluster`."""
        for name in refused:
            raise TypeError(_refusal(name))
        self.image = image
        self.port = port
        self.env: dict[str, str] = {}
        self._security = security
        self._cluster_id: str | None = None
        self._cluster: EmbeddedCluster | None = None

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(_refusal(name))

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def with_kraft(self) -> Self:
        """It has nothing else."""
        return self

    def with_cluster_id(self, cluster_id: str) -> Self:
        """The node's, as `kafka-storage random-uuid` gives one."""
        if not _CLUSTER_ID.fullmatch(cluster_id):
            raise ClusterError(
                f"a cluster id has 22 characters of base64, as in MkU3OEVBNTcwNTJENDM2Qg, unlike {cluster_id!r}"
            )
        self._cluster_id = cluster_id
        return self

    def with_env(self, key: str, value: str) -> Self:
        """`KAFKA_NUM_PARTITIONS` is `num.partitions`: `_` is a dot, `__` an underscore, `___` a dash. Others have no effect, as
        in the images; what the container decides itself is refused."""
        self._check_not_started()
        if key == "CLUSTER_ID":
            return self.with_cluster_id(value)
        name = key_of(key)
        if name in _DECIDED_HERE:
            raise ClusterError(f"{key} cannot be set: KafkaContainer decides {name} itself")
        self.env[key] = str(value)
        return self

    def with_envs(self, **variables: str) -> Self:
        for key, value in variables.items():
            self.with_env(key, value)
        return self

    def start(self, timeout: float = 30) -> Self:  # noqa: ARG002 - a start has its own limit, and takes a tenth of a second
        self._check_not_started()
        config = {name: value for key, value in self.env.items() if (name := key_of(key)) is not None}
        self._cluster = EmbeddedCluster(config=config, security=self._security, cluster_id=self._cluster_id)
        self._cluster.start()
        return self

    def stop(self, force: bool = True, delete_volume: bool = True) -> None:  # noqa: ARG002 - there is only one way here
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            cluster.stop()

    def get_bootstrap_server(self) -> str:
        return self.cluster.bootstrap_servers

    def get_container_host_ip(self) -> str:
        return HOST

    def get_exposed_port(self, port: int) -> int:
        """Where a port of the container is on this machine. There is one, that of clients."""
        if int(port) != self.port:
            raise ClusterError(f"KafkaContainer has no port {port}: clients are served on {self.port}")
        return int(self.get_bootstrap_server().rpartition(":")[2])

    @property
    def cluster(self) -> EmbeddedCluster:
        """What is behind it, for what testcontainers cannot do: `kafka.cluster.fail("Produce", error="REQUEST_TIMED_OUT")`."""
        if self._cluster is None:
            raise ClusterError("the container does not run: use it inside of `with`, or call start()")
        return self._cluster

    def _check_not_started(self) -> None:
        if self._cluster is not None:
            raise ClusterError("the container runs already")


def _refusal(name: str) -> str:
    return (
        f"the KafkaContainer of tidelog.testing has no {name}: it is a node in this process, with start, stop, with_env, "
        "with_envs, with_kraft, with_cluster_id, get_bootstrap_server, get_container_host_ip, get_exposed_port and cluster"
    )
