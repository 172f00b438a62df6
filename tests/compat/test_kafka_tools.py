"""Apache Kafka's own command-line tools, against a node of ours."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.apache_kafka import NODE_ID, ApacheKafka, Output
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat

TOOLS = "org.apache.kafka.tools"
CONFIGS = "kafka.admin.ConfigCommand"
CONSUMER_TIMEOUT_MS = 20_000

Tool = Callable[..., Output]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogNode]:
    node = TidelogNode.at(tmp_path_factory.mktemp("node"))
    with node.running():
        yield node


@pytest.fixture
def tool(kafka: ApacheKafka, node: TidelogNode) -> Tool:
    """Runs a tool against the node, and holds it to success unless told otherwise."""

    def run(name: str, *arguments: str, given: str = "", fails: bool = False) -> Output:
        main_class = name if name == CONFIGS else f"{TOOLS}.{name}"
        done = kafka.tool(main_class, *arguments, "--bootstrap-server", node.bootstrap, given=given)
        assert (done.code != 0) is fails, f"{name} {arguments}: {done}"
        return done

    return run


def configs(tool: Tool, kind: str, name: str | None, *arguments: str, fails: bool = False) -> Output:
    entity = ("--entity-name", name) if name is not None else ("--entity-default",)
    return tool(CONFIGS, "--entity-type", kind, *entity, *arguments, fails=fails)


def consume(tool: Tool, topic: str, partition: int, count: int) -> list[str]:
    done = tool(
        "consumer.ConsoleConsumer",
        *("--topic", topic, "--partition", str(partition), "--offset", "earliest"),
        *("--max-messages", str(count), "--timeout-ms", str(CONSUMER_TIMEOUT_MS)),
        *("--formatter-property", "print.key=true", "--formatter-property", "print.offset=true"),
    )
    return done.stdout.splitlines()


def test_kafka_topics_creates_lists_describes_grows_and_deletes(tool: Tool) -> None:
    created = tool(
        "TopicCommand", "--create", "--topic", "managed", "--partitions", "2", "--config", "retention.ms=1234"
    )
    assert created.stdout.strip() == "Created topic managed."
    twice = tool("TopicCommand", "--create", "--topic", "managed", fails=True)
    assert "Topic 'managed' already exists." in twice.stdout
    tool("TopicCommand", "--create", "--topic", "managed", "--if-not-exists")
    wrong = tool("TopicCommand", "--create", "--topic", "replicated", "--replication-factor", "2", fails=True)
    assert "eplication factor" in wrong.stdout

    tool("TopicCommand", "--alter", "--topic", "managed", "--partitions", "3")

    described = tool("TopicCommand", "--describe", "--topic", "managed").stdout.splitlines()
    assert re.match(r"Topic: managed\tTopicId: \S{22}\tPartitionCount: 3\tReplicationFactor: 1\t", described[0])
    assert "retention.ms=1234" in described[0]
    assert described[1:] == [
        f"\tTopic: managed\tPartition: {index}\tLeader: {NODE_ID}\tReplicas: {NODE_ID}\tIsr: {NODE_ID}\tElr: \tLastKnownElr: "
        for index in range(3)
    ]
    tool("TopicCommand", "--delete", "--topic", "managed")
    assert "managed" not in tool("TopicCommand", "--list").stdout.split()
    assert "does not exist" in tool("TopicCommand", "--describe", "--topic", "managed", fails=True).stdout


def test_kafka_configs_changes_topics(tool: Tool) -> None:
    tool("TopicCommand", "--create", "--topic", "configured")
    configs(
        tool,
        "topics",
        "configured",
        *("--alter", "--add-config", "max.message.bytes=2000000,cleanup.policy=[compact,delete]"),
    )
    described = configs(tool, "topics", "configured", "--describe").stdout
    assert "cleanup.policy=compact,delete sensitive=false" in described
    assert (
        "max.message.bytes=2000000 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=2000000, "
        "DEFAULT_CONFIG:message.max.bytes=1048588}"
    ) in described

    refused = configs(tool, "topics", "configured", "--alter", "--add-config", "max.message.bytes=-7", fails=True)
    assert "InvalidConfigurationException: Invalid value -7 for configuration max.message.bytes" in refused.stderr
    configs(tool, "topics", "configured", "--alter", "--delete-config", "cleanup.policy")

    assert "cleanup.policy" not in configs(tool, "topics", "configured", "--describe").stdout
    everything = configs(tool, "topics", "configured", "--describe", "--all").stdout
    assert "  cleanup.policy=delete sensitive=false synonyms={DEFAULT_CONFIG:log.cleanup.policy=delete}" in everything


def test_kafka_configs_changes_one_broker_and_all_of_them(tool: Tool) -> None:
    broker = str(NODE_ID)
    configs(tool, "brokers", broker, "--alter", "--add-config", "log.retention.ms=5000000")
    configs(tool, "brokers", None, "--alter", "--add-config", "log.retention.ms=6000000,log.segment.bytes=1048576")
    one = configs(tool, "brokers", broker, "--describe").stdout
    assert (
        "log.retention.ms=5000000 sensitive=false synonyms={DYNAMIC_BROKER_CONFIG:log.retention.ms=5000000, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=6000000, DEFAULT_CONFIG:log.retention.hours=168}"
    ) in one
    assert "log.segment.bytes=1048576" in configs(tool, "brokers", None, "--describe").stdout
    static = configs(tool, "brokers", broker, "--alter", "--add-config", "log.dirs=/elsewhere", fails=True)
    assert "log.dirs" in static.stderr

    configs(tool, "brokers", broker, "--alter", "--delete-config", "log.retention.ms")
    configs(tool, "brokers", None, "--alter", "--delete-config", "log.retention.ms,log.segment.bytes")

    assert "log.retention.ms" not in configs(tool, "brokers", broker, "--describe").stdout


def test_kafka_configs_changes_loggers_groups_and_client_metrics(tool: Tool) -> None:
    broker = str(NODE_ID)
    configs(tool, "broker-loggers", broker, "--alter", "--add-config", "tidelog.net.connection=DEBUG")
    loggers = configs(tool, "broker-loggers", broker, "--describe").stdout
    assert "tidelog.net.connection=DEBUG" in loggers
    unknown = configs(tool, "broker-loggers", broker, "--alter", "--add-config", "nobody=DEBUG", fails=True)
    assert "Invalid broker logger(s): nobody" in unknown.stderr
    configs(tool, "broker-loggers", broker, "--alter", "--delete-config", "tidelog.net.connection")

    # The tool describes groups only after it has asked for their list.
    configs(tool, "groups", "readers", "--alter", "--add-config", "consumer.session.timeout.ms=50000")
    refused = configs(tool, "groups", "readers", "--alter", "--add-config", "consumer.session.timeout.ms=x", fails=True)
    assert "InvalidConfigurationException: Invalid value x for configuration" in refused.stderr

    tool("ClientMetricsCommand", "--alter", "--name", "basic", "--metrics", "org.apache.kafka.", "--interval", "60000")
    assert tool("ClientMetricsCommand", "--list").stdout.split() == ["basic"]
    assert "interval.ms=60000" in tool("ClientMetricsCommand", "--describe", "--name", "basic").stdout


def test_kafka_console_consumer_reads_what_kafka_console_producer_wrote(tool: Tool) -> None:
    tool("TopicCommand", "--create", "--topic", "spoken", "--partitions", "2")
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        tool(
            "ConsoleProducer",
            *("--topic", "spoken", "--compression-codec", codec),
            *("--reader-property", "parse.key=true", "--reader-property", "key.separator=:"),
            given="".join(f"{codec} {row}:value {row}\n" for row in range(20)),
        )
    ends = dict(line.rsplit(":", 1) for line in tool("GetOffsetShell", "--topic", "spoken").stdout.split())
    counts = [int(ends[f"spoken:{partition}"]) for partition in range(2)]

    found = [consume(tool, "spoken", partition, counts[partition]) for partition in range(2)]

    assert all(counts)
    for partition in range(2):
        assert [line.split("\t")[0] for line in found[partition]] == [
            f"Offset:{row}" for row in range(counts[partition])
        ]
    records = sorted(line.split("\t", 1)[1] for lines in found for line in lines)
    expected = [
        f"{codec} {row}\tvalue {row}" for codec in ("none", "gzip", "snappy", "lz4", "zstd") for row in range(20)
    ]
    assert records == sorted(expected)


def test_kafka_producer_perf_test_kafka_get_offsets_and_kafka_log_dirs_agree(
    kafka: ApacheKafka, tool: Tool, node: TidelogNode
) -> None:
    tool("TopicCommand", "--create", "--topic", "loaded", "--partitions", "3")
    done = kafka.tool(
        f"{TOOLS}.ProducerPerformance",
        *("--topic", "loaded", "--num-records", "20000", "--record-size", "100", "--throughput", "-1"),
        *("--producer-props", f"bootstrap.servers={node.bootstrap}", "acks=all", "compression.type=none"),
    )
    assert done.code == 0, done
    assert "20000 records sent" in done.stdout

    def offsets(at: str) -> list[int]:
        lines = tool("GetOffsetShell", "--topic", "loaded", "--time", at).stdout.split()
        assert [line.rsplit(":", 1)[0] for line in lines] == [f"loaded:{partition}" for partition in range(3)]
        return [int(line.rsplit(":", 1)[1]) for line in lines]

    ends = offsets("latest")
    assert sum(ends) == 20_000
    assert offsets("earliest") == offsets("earliest-local") == [0, 0, 0]
    assert all(found < end for found, end in zip(offsets("max-timestamp"), ends, strict=True))
    described = tool("LogDirsCommand", "--describe", "--topic-list", "loaded").stdout.splitlines()[-1]
    (directory,) = json.loads(described)["brokers"][0]["logDirs"]
    assert directory["logDir"] == str(node.data)
    sizes = {each["partition"]: each["size"] for each in directory["partitions"]}
    assert sizes == {f"loaded-{index}": _log_bytes(node.data / f"loaded-{index}") for index in range(3)}


def _log_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("*.log"))


def test_verifiable_producer_is_answered_for_every_record(tool: Tool) -> None:
    tool("TopicCommand", "--create", "--topic", "verified")
    done = tool("VerifiableProducer", "--topic", "verified", "--max-messages", "300", "--acks", "-1")
    events = [json.loads(line) for line in done.stdout.splitlines()]
    sent = [event for event in events if event["name"] == "producer_send_success"]
    assert [event["offset"] for event in sent] == list(range(300))
    assert (events[-1]["sent"], events[-1]["acked"]) == (300, 300)
    assert [line.split("\t")[2] for line in consume(tool, "verified", 0, 300)] == [event["value"] for event in sent]


def test_kafka_delete_records_moves_the_start(tool: Tool, tmp_path: Path) -> None:
    tool("TopicCommand", "--create", "--topic", "trimmed", "--partitions", "2")
    for _ in range(2):
        tool("ConsoleProducer", "--topic", "trimmed", given="".join(f"{row}\n" for row in range(50)))
    ends = [int(line.rsplit(":", 1)[1]) for line in tool("GetOffsetShell", "--topic", "trimmed").stdout.split()]
    # One partition up to an offset, one up to its end, whichever of them the records went to.
    wanted = tmp_path / "wanted.json"
    partitions = [
        {"topic": "trimmed", "partition": 0, "offset": ends[0] // 2},
        {"topic": "trimmed", "partition": 1, "offset": -1},
    ]
    wanted.write_text(json.dumps({"version": 1, "partitions": partitions}))

    done = tool("DeleteRecordsCommand", "--offset-json-file", str(wanted))

    assert f"partition: trimmed-0\tlow_watermark: {ends[0] // 2}" in done.stdout
    assert f"partition: trimmed-1\tlow_watermark: {ends[1]}" in done.stdout
    starts = tool("GetOffsetShell", "--topic", "trimmed", "--time", "earliest").stdout.split()
    assert starts == [f"trimmed:0:{ends[0] // 2}", f"trimmed:1:{ends[1]}"]


def test_kafka_cluster_names_the_cluster_and_its_endpoints(kafka: ApacheKafka, tool: Tool, node: TidelogNode) -> None:
    identity = re.search(r"^cluster\.id=(.*)$", (node.data / "meta.properties").read_text(), re.MULTILINE)
    assert identity is not None
    assert tool("ClusterTool", "cluster-id").stdout.strip() == f"Cluster ID: {identity[1]}"
    endpoints = tool("ClusterTool", "list-endpoints").stdout.splitlines()
    host, port = node.bootstrap.split(":")
    assert endpoints[1].split() == [str(NODE_ID), host, port, "null", "unfenced", "broker"]
    controllers = kafka.tool(
        f"{TOOLS}.ClusterTool", "list-endpoints", "--bootstrap-controller", node.controller_address
    ).stdout.splitlines()
    host, port = node.controller_address.split(":")
    assert controllers[1].split() == [str(NODE_ID), host, port, "null", "controller"]


def test_kafka_features_describes_the_levels_of_kafka_4_3(kafka: ApacheKafka, node: TidelogNode) -> None:
    done = kafka.tool(f"{TOOLS}.FeatureCommand", "--bootstrap-server", node.bootstrap, "describe")
    assert done.code == 0, done
    lines = done.stdout.splitlines()
    found = [re.split(r"\s*\b\w+:\s", line)[1:] for line in lines]
    levels = {name.strip(): (highest.strip(), finalized.strip()) for name, _, highest, finalized, _ in found}
    assert levels == {
        "eligible.leader.replicas.version": ("1", "1"),
        "group.version": ("1", "1"),
        "kraft.version": ("1", "1"),
        "metadata.version": ("4.3-IV0", "4.3-IV0"),
        "share.version": ("1", "1"),
        "streams.version": ("1", "1"),
        "transaction.version": ("2", "2"),
    }


def test_kafka_features_lowers_and_raises_a_level(kafka: ApacheKafka, node: TidelogNode) -> None:
    def features(*arguments: str) -> Output:
        return kafka.tool(f"{TOOLS}.FeatureCommand", "--bootstrap-server", node.bootstrap, *arguments)

    def level() -> str:
        line = next(line for line in features("describe").stdout.splitlines() if "group.version" in line)
        return re.split(r"FinalizedVersionLevel:\s*", line)[1].split()[0]

    refused = features("upgrade", "--feature", "group.version=2")
    assert refused.code != 0
    assert "Could not upgrade group.version to 2" in refused.stdout
    tried = features("downgrade", "--feature", "group.version=0", "--dry-run")
    assert (tried.code, level()) == (0, "1"), tried
    lowered = features("downgrade", "--feature", "group.version=0")
    assert (lowered.code, level()) == (0, "0"), lowered
    raised = features("upgrade", "--feature", "group.version=1")
    assert (raised.code, level()) == (0, "1"), raised


def test_kafka_leader_election_finds_that_the_only_replicas_lead(tool: Tool) -> None:
    tool("TopicCommand", "--create", "--topic", "elected", "--partitions", "2")

    one = tool("LeaderElectionCommand", "--election-type", "preferred", "--topic", "elected", "--partition", "1").stdout
    assert "Valid replica already elected for partitions elected-1" in one
    everywhere = tool("LeaderElectionCommand", "--election-type", "unclean", "--all-topic-partitions").stdout
    assert "Error" not in everywhere
    missing = tool(
        "LeaderElectionCommand",
        *("--election-type", "preferred", "--topic", "elected", "--partition", "9"),
        fails=True,
    )
    assert "UnknownTopicOrPartitionException" in missing.stdout + missing.stderr


def test_kafka_cluster_unregisters_nobody_that_is_not_there(kafka: ApacheKafka, node: TidelogNode) -> None:
    done = kafka.tool(f"{TOOLS}.ClusterTool", "unregister", "--bootstrap-server", node.bootstrap, "--id", "77")

    assert "Broker ID 77 is not currently registered" in done.stdout + done.stderr, done


@pytest.mark.parametrize("through", ["--bootstrap-server", "--bootstrap-controller"])
def test_kafka_metadata_quorum_describes_the_quorum(kafka: ApacheKafka, node: TidelogNode, through: str) -> None:
    address = node.bootstrap if through == "--bootstrap-server" else node.controller_address

    def describe(what: str) -> list[str]:
        done = kafka.tool(f"{TOOLS}.MetadataQuorumCommand", through, address, "describe", what)
        assert done.code == 0, done
        return done.stdout.splitlines()

    status = {line.split(":", 1)[0]: line.split(":", 1)[1].strip() for line in describe("--status")}
    assert (status["LeaderId"], status["LeaderEpoch"], status["MaxFollowerLag"]) == (str(NODE_ID), "1", "0")
    (voter,) = json.loads(status["CurrentVoters"])
    assert (voter["id"], voter["endpoints"]) == (NODE_ID, [f"CONTROLLER://{node.controller_address}"])
    assert status["CurrentObservers"] == "[]"
    header, row = describe("--replication")
    leader = dict(zip(header.split(), row.split(), strict=True))
    assert (leader["NodeId"], leader["DirectoryId"]) == (str(NODE_ID), voter["directoryId"])
    assert (leader["Lag"], leader["Status"]) == ("0", "Leader")
    assert int(leader["LogEndOffset"]) >= int(status["HighWatermark"])


def test_kafka_broker_api_versions_finds_the_newest_version_of_every_api_that_is_announced(
    tool: Tool, record_property: Callable[[str, object], None]
) -> None:
    text = tool("BrokerApiVersionsCommand").stdout
    announced = re.findall(r"(\w+)\((\d+)\): (?:\d+ to )?(\d+) \[usable: (\d+)\]", text)
    record_property("APIs announced", len(announced))
    assert {name for name, *_ in announced} >= {"Produce", "Fetch", "ListOffsets", "Metadata", "InitProducerId"}
    assert [name for name, _, newest, usable in announced if newest != usable] == []
    # A number is no name: Kafka's client would know none of ours that is not Kafka's.
    assert "UNKNOWN" not in text
