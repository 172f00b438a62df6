"""`tidelog cluster rolling-restart`: every node of a cluster is restarted, and no client notices more than a pause."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer as ConfluentProducer

from tests.support.command_line import json_lines, tidelog
from tests.support.command_process import CommandProcess
from tidelog import Admin, Consumer, Producer
from tidelog.client.errors import ClientError

TOPIC = "orders"
PARTITIONS = 3
DEADLINE_S = 60


class Writers:
    """Ours and librdkafka, with their defaults, each writing numbers until it is told to stop."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._is_over = threading.Event()
        self.sent = {"ours": 0, "librdkafka": 0}
        self.failures: list[object] = []
        self._threads = [threading.Thread(target=self._write_ours), threading.Thread(target=self._write_librdkafka)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(DEADLINE_S)
            assert not thread.is_alive()

    def _write_ours(self) -> None:
        deliveries = []
        with Producer(bootstrap_servers=self._bootstrap) as producer:
            while not self._is_over.wait(0.005):
                deliveries.append(producer.send(TOPIC, b"ours %d" % self.sent["ours"]))
                self.sent["ours"] += 1
            for delivery in deliveries:
                try:
                    delivery.result(DEADLINE_S)
                except ClientError as error:
                    self.failures.append(error)

    def _write_librdkafka(self) -> None:
        def done(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                self.failures.append(error)

        producer = ConfluentProducer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True})
        while not self._is_over.wait(0.005):
            producer.produce(TOPIC, b"librdkafka %d" % self.sent["librdkafka"], on_delivery=done)
            self.sent["librdkafka"] += 1
            producer.poll(0)
        assert producer.flush(DEADLINE_S) == 0


def read_all(bootstrap: str) -> list[bytes]:
    """Everything up to the present end, each record as often as it is there."""
    with Consumer(bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        places = [(TOPIC, index) for index in range(PARTITIONS)]
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        found: list[bytes] = []
        while len(found) < sum(ends.values()):
            found += [record.value or b"" for record in consumer.poll(timeout_ms=DEADLINE_S * 1000)]
    return found


def test_all_nodes_are_restarted_and_no_request_fails(tmp_path: Path) -> None:
    with CommandProcess("up", "--nodes", "3", "--port", "0", "--dir", tmp_path) as up:
        bootstrap = up.ready_line().split()[1]
        before = json.loads((tmp_path / "cluster.json").read_text())
        with Admin(bootstrap_servers=bootstrap) as admin:
            configs = {"min.insync.replicas": "2"}
            admin.create_topic(TOPIC, partitions=PARTITIONS, replication_factor=3, configs=configs)
            leader = admin.describe_quorum().leader_id
        writers = Writers(bootstrap)
        writers.start()
        restarted = tidelog("cluster", "rolling-restart", "--dir", tmp_path, "--json")
        writers.stop()
        after = json.loads((tmp_path / "cluster.json").read_text())
        found = read_all(bootstrap)
        with Admin(bootstrap_servers=bootstrap) as admin:
            partitions = admin.describe_topic(TOPIC).partitions
        up.send(signal.SIGINT)
        code, errors = up.end()

    assert restarted.exit_code == 0, restarted.output
    rows = json_lines(restarted)
    assert sorted(row["node"] for row in rows) == [1, 2, 3]
    assert rows[-1]["node"] == leader
    assert [row["node"] for row in after] == [1, 2, 3]
    assert not {row["pid"] for row in before} & {row["pid"] for row in after}
    assert {row["pid"] for row in after} == {row["pid"] for row in rows}
    assert writers.failures == []
    assert min(writers.sent.values()) > 50
    assert sorted(found) == sorted(
        b"%s %d" % (who.encode(), n) for who, count in writers.sent.items() for n in range(count)
    )
    assert all(each.leader == each.replicas[0] for each in partitions)
    assert code == 0, errors
    assert "tidelog up:" not in errors

    gone = tidelog("cluster", "rolling-restart", "--dir", tmp_path)
    assert gone.exit_code == 1
    assert "no `tidelog up` runs in" in gone.stderr
