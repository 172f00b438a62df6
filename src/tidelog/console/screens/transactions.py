"""Transactions: what each transactional id is at, which of them are open for long, and the end of one that hangs."""

from __future__ import annotations

import time

from tidelog.client.admin import TransactionDescription, TransactionState
from tidelog.client.errors import ClientError
from tidelog.console.serving.answers import Json, page
from tidelog.console.serving.api_error import ApiError
from tidelog.console.serving.call import Call, change, get

_SORTS = {
    "transactional_id": lambda row: row["transactional_id"],
    "state": lambda row: row["state"],
    "producer_id": lambda row: row["producer_id"],
    "coordinator": lambda row: row["coordinator"],
}
PARTITIONS_MAX = 1_000


async def list_transactions(call: Call) -> Json:
    search, state = call.query.get("search", "").lower(), call.query.get("state", "").lower()
    rows = [
        {
            "transactional_id": each.transactional_id,
            "producer_id": each.producer_id,
            "state": str(each.state),
            "coordinator": each.coordinator,
        }
        for each in await call.view.admin.list_transactions()
        if search in each.transactional_id.lower() and (not state or str(each.state).lower() == state)
    ]
    total, shown = page(rows, call.query, sorts=_SORTS, default="transactional_id")
    described = await call.view.admin.describe_transactions([row["transactional_id"] for row in shown])
    for row in shown:
        found = described[row["transactional_id"]]
        # One that has ended since it was listed is shown as it was listed.
        if not isinstance(found, ClientError):
            row.update(_row(found))
    return {"total": total, "rows": shown}


async def show_transaction(call: Call) -> Json:
    return _row(await call.view.admin.describe_transaction(call.path("transaction")))


def _row(found: TransactionDescription) -> Json:
    return {
        "transactional_id": found.transactional_id,
        "coordinator": found.coordinator,
        "state": str(found.state),
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": found.timeout_ms,
        "started_ms": found.start_time_ms,
        "open_for_ms": None if found.start_time_ms is None else max(0, round(time.time() * 1000) - found.start_time_ms),
        "partitions": [str(each) for each in found.partitions[:PARTITIONS_MAX]],
        "partitions_total": len(found.partitions),
    }


async def abort_transaction(call: Call) -> Json:
    """End an open transaction as its coordinator knows it: its producer is fenced, and nothing of it counts."""
    name, _ = call.path("transaction"), await call.body()
    call.details["transactional_id"] = name
    found = await call.view.admin.describe_transaction(name)
    if found.state is not TransactionState.ONGOING:
        raise ApiError(409, "INVALID_TXN_STATE", f"transactional id {name} has nothing open: it is {found.state}")
    call.details |= {"producer_id": found.producer_id, "producer_epoch": found.producer_epoch}
    if not call.is_dry_run:
        await call.view.admin.fence_producer(name)
    return {"plan": _row(found), "applied": not call.is_dry_run}


ROUTES = [
    get("/transactions", list_transactions),
    # Transactional ids may hold slashes.
    change("POST", "/transactions/{transaction:path}/abort", abort_transaction, "abort transaction"),
    get("/transactions/{transaction:path}", show_transaction),
]
