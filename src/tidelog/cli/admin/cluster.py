"""`tidelog cluster`: who is in a cluster, who leads its metadata, and brokers that go for good."""

from __future__ import annotations

from tidelog.cli.admin_session import RefusalError, administer, comma_separated, print_json, print_line, print_table
from tidelog.cli.rendering import Json
from tidelog.client.admin import AsyncAdmin, ClusterDescription, QuorumDescription, QuorumReplica

_COMMAND = "cluster"


def describe_cluster(bootstrap: str, *, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        cluster = await admin.describe_cluster(include_fenced_brokers=True)
        quorum = await admin.describe_quorum()
        if as_json:
            print_json([_as_json(cluster, quorum)])
        else:
            _print(cluster, quorum)

    return administer(_COMMAND, bootstrap, work)


def unregister_broker(bootstrap: str, node_id: int) -> int:
    """Have the cluster forget a broker that does not come back. The exit code."""

    async def work(admin: AsyncAdmin) -> None:
        brokers = (await admin.describe_cluster(include_fenced_brokers=True)).brokers
        found = next((each for each in brokers if each.node_id == node_id), None)
        if found is not None and not found.is_fenced:
            # It would register again by itself, and have lost what it led for nothing.
            raise RefusalError(f"broker {node_id} still serves: stop it first")
        await admin.unregister_broker(node_id)
        print_line(f"broker {node_id} is unregistered; what has replicas there: `tidelog reassign plan` moves them")

    return administer(_COMMAND, bootstrap, work)


def _as_json(cluster: ClusterDescription, quorum: QuorumDescription) -> dict[str, Json]:
    return {
        "cluster": cluster.cluster_id,
        "brokers": [
            {"node": each.node_id, "host": each.host, "port": each.port, "rack": each.rack, "fenced": each.is_fenced}
            for each in cluster.brokers
        ],
        "quorum": {
            "leader": quorum.leader_id,
            "epoch": quorum.leader_epoch,
            "high_watermark": quorum.high_watermark,
            "voters": list(map(_replica_as_json, quorum.voters)),
            "observers": list(map(_replica_as_json, quorum.observers)),
        },
    }


def _replica_as_json(each: QuorumReplica) -> dict[str, Json]:
    return {"node": each.node_id, "log_end_offset": each.log_end_offset, "directory_id": each.directory_id}


def _print(cluster: ClusterDescription, quorum: QuorumDescription) -> None:
    print_line(f"cluster {cluster.cluster_id}")
    print_line(
        f"metadata led by node {quorum.leader_id} in epoch {quorum.leader_epoch}, committed up to {quorum.high_watermark}, "
        f"voters {comma_separated(each.node_id for each in quorum.voters)}"
    )
    rows = [
        (each.node_id, each.host, each.port, each.rack or "-", "fenced" if each.is_fenced else "serves")
        for each in cluster.brokers
    ]
    print_table(["broker", "host", "port", "rack", "state"], rows)
