"""`tidelog quotas` as it is typed. What it does is in the module that each command imports when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.command_group import command_group, exit_with
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption

UserOption = Annotated[str | None, typer.Option("--user", metavar="NAME", help="A user, by the name of its principal.")]
ClientIdOption = Annotated[str | None, typer.Option("--client-id", metavar="ID", help="What a client calls itself.")]
IpOption = Annotated[
    str | None, typer.Option("--ip", metavar="ADDRESS", help="An address, for the rate of connections.")
]
UserDefaultOption = Annotated[bool, typer.Option("--user-default", help="All users that have no quota of their own.")]
ClientIdDefaultOption = Annotated[
    bool, typer.Option("--client-id-default", help="All client ids that have no quota of their own.")
]
IpDefaultOption = Annotated[bool, typer.Option("--ip-default", help="All addresses that have no quota of their own.")]

app = command_group("Show and change how much clients may take of each broker of any Kafka cluster.")


@app.command("list")
def list_(
    user: UserOption = None,
    client_id: ClientIdOption = None,
    ip: IpOption = None,
    user_default: UserDefaultOption = False,
    client_id_default: ClientIdDefaultOption = False,
    ip_default: IpDefaultOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Show the quotas that are set: all, or those of whom the options name."""
    from tidelog.cli.admin.quotas import list_quotas, quota_entity  # noqa: PLC0415

    defaults = (user_default, client_id_default, ip_default)
    exit_with(lambda: list_quotas(bootstrap, lambda: quota_entity(user, client_id, ip, defaults), as_json=as_json))


@app.command("set")
def set_(
    settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...")],
    user: UserOption = None,
    client_id: ClientIdOption = None,
    ip: IpOption = None,
    user_default: UserDefaultOption = False,
    client_id_default: ClientIdDefaultOption = False,
    ip_default: IpDefaultOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Set quotas, all or none.

    The keys are producer_byte_rate, consumer_byte_rate, request_percentage and controller_mutation_rate of users and client ids,
    and connection_creation_rate of addresses.
    """
    from tidelog.cli.admin.quotas import change_quotas, quota_entity  # noqa: PLC0415

    defaults = (user_default, client_id_default, ip_default)
    exit_with(lambda: change_quotas(bootstrap, lambda: quota_entity(user, client_id, ip, defaults), settings=settings))


@app.command()
def remove(
    keys: Annotated[list[str], typer.Argument(metavar="KEY...")],
    user: UserOption = None,
    client_id: ClientIdOption = None,
    ip: IpOption = None,
    user_default: UserDefaultOption = False,
    client_id_default: ClientIdDefaultOption = False,
    ip_default: IpDefaultOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Remove quotas."""
    from tidelog.cli.admin.quotas import change_quotas, quota_entity  # noqa: PLC0415

    defaults = (user_default, client_id_default, ip_default)
    exit_with(lambda: change_quotas(bootstrap, lambda: quota_entity(user, client_id, ip, defaults), removed=keys))
