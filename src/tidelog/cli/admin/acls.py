"""`tidelog acls`: list, add and remove ACLs."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.cli.admin.acl_plan import AclQuestion, permission_lines, planned_acls, planned_filters, planned_removals
from tidelog.cli.admin_session import administer, complain_later, print_json, print_line, print_table
from tidelog.client.admin import AclBinding, AsyncAdmin
from tidelog.client.errors import ClientError

_COMMAND = "acls"
_COLUMNS = ("resource", "name", "pattern", "principal", "host", "operation", "permission")


def list_acls(bootstrap: str, question: AclQuestion, *, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        filters = planned_filters(question)
        found: dict[AclBinding, None] = {}
        for each in filters:
            found.update(dict.fromkeys(await admin.describe_acls(each)))
        if as_json or found:
            _print_acls(found, as_json=as_json)
        else:
            print_line("there are no ACLs")

    return administer(_COMMAND, bootstrap, work)


def add_acls(bootstrap: str, question: AclQuestion, *, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        outcomes = await admin.create_acls(planned_acls(question))
        _print_acls([acl for acl, error in outcomes.items() if error is None], as_json=as_json)
        complain_later([error for error in outcomes.values() if error is not None])

    return administer(_COMMAND, bootstrap, work)


def remove_acls(bootstrap: str, question: AclQuestion, *, as_json: bool) -> int:
    async def work(admin: AsyncAdmin) -> None:
        outcomes = await admin.delete_acls(planned_removals(question))
        removed: dict[AclBinding, None] = {}
        for outcome in outcomes.values():
            if not isinstance(outcome, ClientError):
                removed.update(dict.fromkeys(outcome))
        if as_json or removed:
            _print_acls(removed, as_json=as_json)
        complain_later([outcome for outcome in outcomes.values() if isinstance(outcome, ClientError)])
        if not removed and not as_json:
            print_line("no ACL fits: nothing was removed")

    return administer(_COMMAND, bootstrap, work)


def _print_acls(acls: Iterable[AclBinding], *, as_json: bool) -> None:
    rows = permission_lines(acls)
    if as_json:
        print_json(dict(zip(_COLUMNS, row, strict=True)) for row in rows)
    elif rows:
        print_table(_COLUMNS, rows)
