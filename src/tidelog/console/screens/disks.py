"""Log directories of nodes, and partitions on their way to other replicas."""

from __future__ import annotations

from tidelog.client.admin import PartitionReassignment
from tidelog.client.consumer.topic_partition import TopicPartition
from tidelog.client.errors import ClientError
from tidelog.console.serving.answers import Json
from tidelog.console.serving.call import Call, get

REASSIGNMENTS_MAX = 1_000


async def show_log_dirs(call: Call) -> Json:
    rows: list[Json] = []
    errors: list[ClientError] = []
    described = await call.view.admin.describe_log_dirs()
    for node_id, dirs in sorted(described.items()):
        if isinstance(dirs, ClientError):
            errors.append(dirs)
            rows.append(_row(node_id, "", str(dirs)))
            continue
        for path, each in sorted(dirs.items()):
            row = _row(node_id, path, None if each.error is None else str(each.error))
            row |= {
                "total": each.total_bytes,
                "usable": each.usable_bytes,
                "topics": len({partition.topic for partition in each.replicas}),
                "replicas": len(each.replicas),
                "moving": sum(replica.is_future for replica in each.replicas.values()),
                "bytes": sum(replica.size_bytes for replica in each.replicas.values()),
                "cordoned": each.is_cordoned,
            }
            rows.append(row)
    if errors and len(errors) == len(described):
        raise errors[0]
    return rows


def _row(node_id: int, path: str, error: str | None) -> dict[str, Json]:
    return {
        "node": node_id,
        "path": path,
        "total": None,
        "usable": None,
        "topics": None,
        "replicas": None,
        "moving": None,
        "bytes": None,
        "cordoned": False,
        "error": error,
    }


async def list_reassignments(call: Call) -> Json:
    """With how far each new replica is, by the bytes that it has of the largest one."""
    found = await call.view.admin.list_partition_reassignments()
    shown = dict(sorted(found.items())[:REASSIGNMENTS_MAX])
    sizes = await _sizes(call, list(shown)) if shown else {}
    return {
        "total": len(found),
        "rows": [_reassignment(partition, each, sizes.get(partition, {})) for partition, each in shown.items()],
    }


async def _sizes(call: Call, partitions: list[TopicPartition]) -> dict[TopicPartition, dict[int, int]]:
    sizes: dict[TopicPartition, dict[int, int]] = {}
    for node_id, dirs in (await call.view.admin.describe_log_dirs(partitions=partitions)).items():
        if isinstance(dirs, ClientError):
            continue
        for each in dirs.values():
            for partition, replica in each.replicas.items():
                sizes.setdefault(partition, {})[node_id] = replica.size_bytes
    return sizes


def _reassignment(partition: TopicPartition, each: PartitionReassignment, sizes: dict[int, int]) -> Json:
    largest = max(sizes.values(), default=0)
    coming = [node_id for node_id in each.adding_replicas if node_id in sizes]
    return {
        "topic": partition.topic,
        "partition": partition.partition,
        "replicas": each.replicas,
        "adding": each.adding_replicas,
        "removing": each.removing_replicas,
        "target": each.target_replicas,
        "bytes": largest or None,
        # Of the one that is furthest behind.
        "progress": min((min(1.0, sizes[node_id] / largest) for node_id in coming), default=None) if largest else None,
    }


ROUTES = [get("/logdirs", show_log_dirs), get("/reassignments", list_reassignments)]
