"""Who may do what, who there is, and how much each may take: ACLs, SCRAM users, quotas; what was changed from here."""

from __future__ import annotations

from tidelog.client.errors import ClientError
from tidelog.console.serving.answers import Json, page
from tidelog.console.serving.call import Call, get
from tidelog.console.xray.rights import may_describe_cluster

_ACL_SORTS = {
    "principal": lambda row: (row["principal"], row["resource_type"], row["name"]),
    "resource": lambda row: (row["resource_type"], row["name"], row["principal"]),
    "operation": lambda row: (row["operation"], row["principal"]),
}
_USER_SORTS = {"user": lambda row: row["user"]}
_QUOTA_SORTS = {"entity": lambda row: [each or "" for each in row["entity"].values()]}


async def list_acls(call: Call) -> Json:
    search = call.query.get("search", "").lower()
    rows = [
        {
            "resource_type": each.resource_type.name.lower(),
            "name": each.resource_name,
            "pattern": each.pattern_type.name.lower(),
            "principal": each.principal,
            "host": each.host,
            "operation": each.operation.name.lower(),
            "permission": each.permission.name.lower(),
        }
        for each in await call.view.admin.describe_acls()
    ]
    found = [row for row in rows if search in f"{row['principal']} {row['name']}".lower()]
    total, shown = page(found, call.query, sorts=_ACL_SORTS, default="principal")
    return {"total": total, "rows": shown}


async def list_users(call: Call) -> Json:
    """Those with SCRAM credentials: mechanism and iterations, and nothing that helps to guess a password."""
    search = call.query.get("search", "").lower()
    described = await call.view.admin.describe_user_scram_credentials()
    rows = [
        {
            "user": user,
            "credentials": []
            if isinstance(infos, ClientError)
            else [{"mechanism": each.mechanism.mechanism_name, "iterations": each.iterations} for each in infos],
        }
        for user, infos in described.items()
        if search in user.lower()
    ]
    total, shown = page(rows, call.query, sorts=_USER_SORTS, default="user")
    return {"total": total, "rows": shown}


async def list_quotas(call: Call) -> Json:
    described = await call.view.admin.describe_client_quotas()
    rows = [
        {
            # Null is whoever has none of their own.
            "entity": {
                kind: name or None
                for kind, name in (("user", each.user), ("client-id", each.client_id), ("ip", each.ip))
                if name is not None
            },
            "quotas": values,
        }
        for each, values in described.items()
    ]
    total, shown = page(rows, call.query, sorts=_QUOTA_SORTS, default="entity")
    return {"total": total, "rows": shown}


async def show_audit(call: Call) -> Json:
    """What others have changed names topics and groups: for those alone who may Describe the cluster, and so its ACLs."""
    is_all = not call.cluster.needs_login or await may_describe_cluster(call.view)
    return call.console.audit.newest({call.cluster.name: None if is_all else call.view.user})


ROUTES = [
    get("/acls", list_acls),
    get("/users", list_users),
    get("/quotas", list_quotas),
    get("/audit", show_audit),
]
