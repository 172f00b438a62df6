"""Keys of Apache Kafka 4.3 that nothing here acts on, so that the file of an ordinary Kafka is understood and shown as it is.

Two kinds:

- *without effect*: they tune threads, buffers or the JVM of another program, or something that is not in use. A value is checked
  and shown, and the log says that it does nothing.
- *refused*: they ask for something that is not there. Refused with the reason, unless set to what is done anyway, their default.

Types, defaults, ranges and times of change are Kafka's. `internal` keys are shown only where they are set. With
`broker_config.BROKER_KEYS` these are all keys that a broker of Kafka has. The table is read when somebody asks for it first: a
node that is configured with keys that act alone starts without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import cache
from typing import Any, NamedTuple

from tidelog.model.config import ConfigKey, ConfigType, UpdateMode, parse_value

# Each key with its type, default (- for none, [] for an empty list), range and when it may change; then what it is for.
_TABLE = """\
without effect: it tunes Apache Kafka's own threads and buffers
    background.threads  int  10  1..  cluster-wide
        Threads for work behind the requests, such as flushing and deletion.
    controller.performance.always.log.threshold.ms  long  2000  0..  read-only  internal
        From which duration on an event of the controller is always logged.
    controller.performance.sample.period.ms  long  60000  100..  read-only  internal
        How often the controller logs its slowest event.
    controller.quorum.append.linger.ms  int  25  0..  read-only
        How long the quorum's leader gathers records before it writes them.
    delete.records.purgatory.purge.interval.requests  int  1  -  read-only
        After how many requests finished waits of DeleteRecords are dropped.
    fetch.purgatory.purge.interval.requests  int  1000  -  read-only
        After how many requests finished waits of Fetch are dropped.
    group.coordinator.append.linger.ms  int  -1  -1..  read-only
        How long the group coordinator gathers records before it writes them.
    group.coordinator.background.threads  int  2  1..  read-only
        Threads of the group coordinator for work behind the requests.
    group.coordinator.cached.buffer.max.bytes  int  1048588  524288..  cluster-wide
        How large a buffer of the group coordinator is kept for its next write.
    group.coordinator.threads  int  4  1..  read-only
        Threads of the group coordinator.
    internal.metadata.delete.delay.millis  long  60000  -  read-only  internal
        How long a deleted file of the metadata log stays on disk.
    internal.metadata.log.segment.bytes  int  -  -  read-only  internal
        The size of a segment of the metadata log, for tests.
    internal.metadata.max.batch.size.in.bytes  int  8388608  -  read-only  internal
        How large a batch of the metadata log is at most.
    log.initial.task.delay.ms  long  30000  0..  read-only  internal
        How long after a start the periodic work on logs begins.
    num.io.threads  int  8  1..  cluster-wide
        Threads that handle requests.
    num.network.threads  int  3  1..  cluster-wide
        Threads that read and write the sockets of a listener.
    num.recovery.threads.per.data.dir  int  2  1..  cluster-wide
        Threads that recover the logs of a directory at a start.
    num.replica.alter.log.dirs.threads  int  -  -  read-only
        Threads that move replicas between directories.
    num.replica.fetchers  int  1  1..  cluster-wide
        Connections over which a follower fetches from one leader.
    producer.purgatory.purge.interval.requests  int  1000  -  read-only
        After how many requests finished waits of Produce are dropped.
    server.max.startup.time.ms  long  9223372036854775807  0..  read-only  internal
        How long a node may take to start.
    share.coordinator.append.linger.ms  int  -1  -1..  read-only
        How long the share coordinator gathers records before it writes them.
    share.coordinator.cached.buffer.max.bytes  int  1048588  524288..  cluster-wide
        How large a buffer of the share coordinator is kept for its next write.
    share.coordinator.threads  int  1  1..  read-only
        Threads of the share coordinator.
    share.fetch.purgatory.purge.interval.requests  int  1000  -  read-only
        After how many requests finished waits of ShareFetch are dropped.
without effect: what nodes say to each other does not go by it
    controller.quorum.fetch.max.bytes  int  1048576  1..  read-only
        How much of the metadata log one answer of the quorum's leader carries at most.
    controller.quorum.fetch.snapshot.max.bytes  int  1048576  1..  read-only
        How much of a snapshot one answer of the quorum's leader carries at most.
    controller.socket.timeout.ms  int  30000  -  read-only
        How long a connection from the controller to a broker may be silent.
    initial.broker.registration.timeout.ms  int  60000  -  read-only
        How long a broker that starts waits for its registration.
    log.dir.failure.timeout.ms  long  30000  1..  read-only
        How long a broker waits for the controller to take note of a failed directory before it stops.
    replica.socket.receive.buffer.bytes  int  65536  -  read-only
        How much the system buffers of what a follower receives.
    socket.connection.setup.timeout.max.ms  long  30000  -  read-only
        How long a connection to another node may take to be made, at most, after failures.
    socket.connection.setup.timeout.ms  long  10000  -  read-only
        How long a connection to another node may take to be made.
    unclean.leader.election.interval.ms  long  300000  1..  read-only  internal
        How often the controller looks for partitions that only an unclean election can help.
without effect: a node always stops in a controlled way
    controlled.shutdown.enable  boolean  true  -  read-only
        Whether a broker hands its leaderships over before it stops.
without effect: it configures the metrics of Apache Kafka
    kafka.metrics.polling.interval.secs  int  10  1..  read-only
        How often reporters of the older metrics are called.
    kafka.metrics.reporters  list  []  -  read-only
        The classes that report the older metrics.
    metric.reporters  list  org.apache.kafka.common.metrics.JmxReporter  -  cluster-wide
        The classes that report metrics.
    metrics.num.samples  int  2  1..  read-only
        How many samples a metric is computed from.
    metrics.recording.level  string  INFO  -  read-only
        Which metrics are recorded.
    metrics.sample.window.ms  long  30000  1..  read-only
        How long a sample of a metric lasts.
without effect: tiered storage is not supported
    follower.fetch.last.tiered.offset.enable  boolean  false  -  cluster-wide
        Whether a new replica begins at the last tiered offset.
    log.local.retention.bytes  long  -2  -2..  cluster-wide
        How much of a tiered partition stays on the broker.
    log.local.retention.ms  long  -2  -2..  cluster-wide
        How long records of a tiered partition stay on the broker.
    remote.fetch.max.wait.ms  int  500  1..  cluster-wide
        How long a fetch waits for remote storage.
    remote.list.offsets.request.timeout.ms  long  30000  1..  cluster-wide
        How long ListOffsets waits for remote storage.
    remote.log.index.file.cache.total.size.bytes  long  1073741824  1..  cluster-wide
        How much of the remote indexes is kept on local disk.
    remote.log.index.file.cache.ttl.ms  long  900000  -1..  read-only  internal
        How long a remote index is kept on local disk after its last use.
    remote.log.manager.copier.thread.pool.size  int  10  1..  cluster-wide
        Threads that copy segments to remote storage.
    remote.log.manager.copy.max.bytes.per.second  long  9223372036854775807  1..  cluster-wide
        How fast segments are copied to remote storage.
    remote.log.manager.copy.quota.window.num  int  11  1..  read-only
        How many samples that limit is computed from.
    remote.log.manager.copy.quota.window.size.seconds  int  1  1..  read-only
        How long such a sample lasts.
    remote.log.manager.expiration.thread.pool.size  int  10  1..  cluster-wide
        Threads that delete expired remote segments.
    remote.log.manager.fetch.max.bytes.per.second  long  9223372036854775807  1..  cluster-wide
        How fast segments are read from remote storage.
    remote.log.manager.fetch.quota.window.num  int  11  1..  read-only
        How many samples that limit is computed from.
    remote.log.manager.fetch.quota.window.size.seconds  int  1  1..  read-only
        How long such a sample lasts.
    remote.log.manager.follower.thread.pool.size  int  2  1..  cluster-wide
        Threads for what followers do about remote storage.
    remote.log.manager.task.interval.ms  long  30000  1..  read-only
        How often the work on remote storage runs.
    remote.log.manager.task.retry.backoff.max.ms  long  30000  1..  read-only  internal
        The longest wait before failed work on remote storage is tried again.
    remote.log.manager.task.retry.backoff.ms  long  500  1..  read-only  internal
        The first wait before failed work on remote storage is tried again.
    remote.log.manager.task.retry.jitter  double  0.2  0..0.5  read-only  internal
        The random part of these waits.
    remote.log.manager.thread.pool.size  int  2  1..  read-only
        Threads that schedule the work on remote storage.
    remote.log.metadata.custom.metadata.max.bytes  int  128  0..  read-only
        How much a storage plug-in may note of a segment.
    remote.log.metadata.manager.class.name  string  org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager  -  read-only
        The class that keeps the metadata of remote segments.
    remote.log.metadata.manager.class.path  string  -  -  read-only
        Where that class is found.
    remote.log.metadata.manager.impl.prefix  string  rlmm.config.  -  read-only
        The prefix of that class's own keys.
    remote.log.metadata.manager.listener.name  string  -  -  read-only
        The listener that this class connects to.
    remote.log.reader.max.pending.tasks  int  100  1..  read-only
        How many reads from remote storage may wait.
    remote.log.reader.threads  int  10  1..  cluster-wide
        Threads that read from remote storage.
    remote.log.storage.manager.class.name  string  -  -  read-only
        The class that stores remote segments.
    remote.log.storage.manager.class.path  string  -  -  read-only
        Where that class is found.
    remote.log.storage.manager.impl.prefix  string  rsm.config.  -  read-only
        The prefix of that class's own keys.
without effect: the library of Kerberos fetches tickets again by itself
    sasl.kerberos.kinit.cmd  string  /usr/bin/kinit  -  per-broker
        The path of Kerberos' kinit.
    sasl.kerberos.min.time.before.relogin  long  60000  -  per-broker
        How long a login thread sleeps between two renewals.
    sasl.kerberos.ticket.renew.jitter  double  0.05  -  per-broker
        The random part of the time of renewal.
    sasl.kerberos.ticket.renew.window.factor  double  0.8  -  per-broker
        Which part of a ticket's life passes before it is renewed.
without effect: it chooses among what a JVM has for TLS, and OpenSSL does it here
    ssl.keymanager.algorithm  string  SunX509  -  per-broker
        The algorithm of Java's key manager.
    ssl.provider  string  -  -  per-broker
        The security provider of Java.
    ssl.secure.random.implementation  string  -  -  per-broker
        Java's source of randomness for TLS.
    ssl.trustmanager.algorithm  string  PKIX  -  per-broker
        The algorithm of Java's trust manager.
refused: policies are Java classes, which do not run here
    alter.config.policy.class.name  class  -  -  read-only
        The class that may refuse changes of configurations.
    create.topic.policy.class.name  class  -  -  read-only
        The class that may refuse new topics.
refused: it names Java classes, which do not run here
    group.share.assignors  list  simple  -  read-only
        Which assignors share groups may use.
    group.share.persister.class.name  string  org.apache.kafka.server.share.persister.DefaultStatePersister  -  read-only  internal
        The class that keeps the state of share partitions.
    principal.builder.class  class  org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder  -  per-broker
        The class that names the caller of a connection.
    sasl.client.callback.handler.class  class  -  -  read-only
        The class that answers the questions of the client's side.
    sasl.login.class  class  -  -  read-only
        The class that logs in.
    sasl.oauthbearer.jwt.validator.class  class  org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator  -  read-only
        The class that checks tokens.
    security.providers  string  -  -  read-only
        Security providers of Java.
    ssl.engine.factory.class  class  -  -  per-broker
        The class that makes TLS engines.
refused: it names a Java class, which does not run here
    client.quota.callback.class  class  -  -  read-only
        The class that decides about quotas.
refused: requests are limited by their number alone, with queued.max.requests
    queued.max.request.bytes  long  -1  -  read-only
        How many bytes of requests may wait.
refused: tiered storage is not supported
    remote.log.storage.system.enable  boolean  false  -  read-only
        Whether segments may go to remote storage.
refused: it is not supported yet
    cordoned.log.dirs  list  []  -  per-broker
        The directories that get no new replicas.
refused: only what is stable in Kafka 4.3 is supported
    unstable.api.versions.enable  boolean  false  -  read-only  internal
        Whether versions of APIs that are not final are served.
    unstable.feature.versions.enable  boolean  false  -  read-only  internal
        Whether feature levels that are not final are served.
"""  # noqa: E501 - the names of Java classes are as long as they are


class Effect(Enum):
    """What becomes of a key that nothing acts on."""

    NONE = "without effect"
    REFUSED = "refused"


class UnusedKey(NamedTuple):
    """A key with what is said of it where somebody sets it."""

    key: ConfigKey[Any]
    effect: Effect
    reason: str

    def is_done_anyway(self, text: str) -> bool:
        """Whether a value asks for nothing: an empty one, or the default."""
        key = self.key
        return not text.strip() or (key.default is not None and key.format(key.parse(text)) == key.format(key.default))


@cache
def unused_keys() -> Mapping[str, UnusedKey]:
    """Every such key by its name."""
    return {each.key.name: each for each in _parsed()}


def _parsed() -> Iterator[UnusedKey]:
    effect, reason = Effect.NONE, ""
    lines = iter(_TABLE.splitlines())
    for line in lines:
        if not line.startswith(" "):
            kind, _, reason = line.partition(": ")
            effect = Effect(kind)
            continue
        doc = next(lines).strip()
        name, type_, default, values, mode, *internal = line.split()
        yield UnusedKey(
            _key(name, type_, default, values, mode, bool(internal), _doc(doc, effect, reason)), effect, reason
        )


def _doc(doc: str, effect: Effect, reason: str) -> str:
    return f"{doc} {'Without effect' if effect is Effect.NONE else 'Cannot be set'} here: {reason}."


def _key(name: str, type_: str, default: str, values: str, mode: str, is_internal: bool, doc: str) -> ConfigKey[Any]:
    low, dots, high = values.partition("..")
    kind = ConfigType[type_.upper()]
    return ConfigKey(
        name,
        kind,
        None if default == "-" else parse_value(kind, name, default.strip("[]")),
        doc,
        UpdateMode(mode),
        at_least=_number(low) if dots else None,
        at_most=_number(high) if high else None,
        choices=tuple(values.split("|")) if "|" in values else (),
        is_internal=is_internal,
    )


def _number(text: str) -> float:
    return float(text) if "." in text else int(text)
