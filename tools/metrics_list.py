"""Writes docs/metrics.md from what a node registers.

    .venv/bin/python tools/metrics_list.py

The table is read off a node that is started for it. A test of the repository fails while the document is old.
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from tidelog.broker.config.server_properties import check_properties
from tidelog.broker.node.hosting import HostedNode
from tidelog.broker.node.local_cluster import LocalNode, local_properties
from tidelog.model.metrics import Family

REPOSITORY = Path(__file__).resolve().parent.parent
DOCUMENT = REPOSITORY / "docs" / "metrics.md"
HEAD = """# Metrics

Written by `tools/metrics_list.py` from a running node. Do not edit: run it again.

A node shows its metrics where it is asked to. `tidelog up --nodes 3 --metrics-port 9404` gives node 1 the port, node 2 the next
one, and so on; `tidelog broker` has the same option. Without it `up` gives each node any port, which `cluster.json` names in its
directory. What else is to be seen there: [/trace and /log](internals/trace.md).

<!-- test: a terminal of its own -->
```console
$ tidelog up --metrics-port 9404
ready: 127.0.0.1:9092 serves, data in /tmp/tidelog-k2x7c1zq, Ctrl-C stops it
```

```python
from urllib.request import urlopen

print(urlopen("http://127.0.0.1:9404/health").read().decode().strip())
for line in urlopen("http://127.0.0.1:9404/metrics").read().decode().splitlines():
    if "leader_count" in line:
        print(line)
```

```output
{"status": "running", "node_id": 1, "cluster_id": "h86ghqXgSpSqukS_gf8k8A", "active_controller": true, "offline_log_dirs": []}
# HELP kafka_server_replica_manager_leader_count Partitions that this node leads.
# TYPE kafka_server_replica_manager_leader_count gauge
kafka_server_replica_manager_leader_count 0
```

- `http://HOST:9404/metrics`: the text format 0.0.4 of Prometheus
- `http://HOST:9404/health`: 200 while the node serves from all of its log directories; 503 while it starts or stops or a log
  directory is offline. The body is JSON: `status`, `node_id`, `cluster_id`, `active_controller`, `offline_log_dirs`

The port is open on 127.0.0.1 only, unless `--metrics-host` names another address (`0.0.0.0` for all). The path of a log directory
and the names of topics are in it: do not show it to strangers. `tidelog broker` can ask for a token and speak TLS:

- `--metrics-token-file FILE`: only requests with `Authorization: Bearer` and what is in the file are answered; others get 401
- `--metrics-cert FILE`, `--metrics-key FILE`: a certificate and its key in PEM; the port then speaks HTTPS alone

## Metrics of clients

With `tidelog.client.telemetry.enable=true` in its configuration a node also takes what clients push of themselves (KIP-714), and
shows it on the same page. The Java client and librdkafka do so unless `enable.metrics.push` is off. Which clients push what, and
how often, is said by subscriptions, as in Kafka:

<!-- test: not run, it takes Apache Kafka's tools -->
```console
$ kafka-client-metrics.sh --bootstrap-server 127.0.0.1:9092 --alter --name producers \\
    --metrics org.apache.kafka.producer. --interval 30000 --match client_software_name=apache-kafka-java
```

What was counted is `tidelog_client_counter_total`, what was measured `tidelog_client_gauge`; the label `metric` has the client's
own name of it, `attributes` what the client says it is about, and the others tell whose it is. A node keeps 50,000 series at
most, 1,000 of one client, until the client's connection ends or it has been silent for three of its intervals; what is dropped
for that is counted in `tidelog_client_points_dropped_total`. Without the key the two APIs are not announced, as by Apache Kafka
without a plugin that receives.

## Names

A name is that of Kafka's JMX bean in snake case: `kafka.server:type=ReplicaManager,name=LeaderCount` is
`kafka_server_replica_manager_leader_count`. A meter (`MessagesInPerSec`) is a counter without `PerSec` and with `_total`: take
its `rate()`. Kafka's timers and histograms, which have percentiles, are histograms with buckets. The rest of a bean's name are
labels.

- Of `kafka_server_broker_topic_metrics_*` the line without a topic is the sum over all topics, deleted ones included
  (`{topic=""}` selects it); a deleted topic's own line goes.
- Records that are recognised as a producer's repetition are not counted in `messages_in`, which Kafka does. A fetch in a session
  counts only the partitions that were looked at.
- `requests_total` and the times count a request when it is answered. `local_time_ms` is what its handler took, `remote_time_ms`
  the wait for records, replicas or the controller; there are no queues, so there is no time in them.
- `num_delayed_operations` counts a waiting request once, and not for each partition it waits for.
- `tidelog_transactions_stable_offset_*` say who keeps readers of committed records waiting, by producer id. One command finds
  its transactional id, `tidelog transactions list --producer-id N`, and another ends it, `tidelog transactions abort ID`; what no
  coordinator knows is found by `tidelog transactions find-hanging`.
- `process_*` are there as soon as the node serves, and on Linux only, except for the processor's time.

## All of them

| name | type | labels | |
|---|---|---|---|
"""


def render() -> str:
    """The document, as it should be now."""
    return HEAD + "".join(map(_row, asyncio.run(_families())))


async def _families() -> list[Family]:
    with tempfile.TemporaryDirectory() as directory:
        node = LocalNode(1, directory, 0, 0)
        hosted = await HostedNode.start(check_properties(local_properties(node, [node])).values)
        try:
            return sorted(hosted.node.metrics.registry, key=lambda family: family.name)
        finally:
            await hosted.stop()


def _row(family: Family) -> str:
    labels = ", ".join(f"`{name}`" for name in family.label_names)
    return f"| `{family.name}` | {family.kind} | {labels} | {family.help} |\n"


def main() -> None:
    DOCUMENT.write_text(render())


if __name__ == "__main__":
    main()
