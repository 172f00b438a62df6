"""`tidelog cluster` as it is typed. What it does is in the modules that each command imports when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.command_group import INT32_MAX, command_group, exit_with
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, ConfigOption, JsonOption, SettingsOption

app = command_group("Look at a Kafka cluster as a whole, and change it.")


@app.command()
def describe(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """Show the brokers, and who leads the metadata."""
    from tidelog.cli.admin.cluster import describe_cluster  # noqa: PLC0415

    exit_with(lambda: describe_cluster(bootstrap, as_json=as_json))


@app.command()
def status(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
    """Show how the cluster does: its nodes and their roles, the quorum and its lag, partitions that are not whole."""
    from tidelog.cli.admin.cluster_status import show_status  # noqa: PLC0415

    exit_with(lambda: show_status(bootstrap, as_json=as_json))


@app.command("rolling-restart")
def rolling_restart_(
    directory: Annotated[
        str,
        typer.Option("--dir", metavar="DIR", help="Where `tidelog up` keeps the cluster, as its first line says."),
    ],
    timeout_s: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", help="How long to wait for each node.", min=1)
    ] = 120.0,
    as_json: JsonOption = False,
) -> None:
    """Restart the nodes of a cluster that `tidelog up` runs, one after another, while clients go on."""
    from tidelog.cli.admin.rolling_restart import rolling_restart  # noqa: PLC0415

    exit_with(lambda: rolling_restart(directory, timeout_s=timeout_s, as_json=as_json))


@app.command("add-controller")
def add_controller(
    config: ConfigOption = None,
    settings: SettingsOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Let a controller vote that runs and has caught up; its server.properties and its log directory say who it is."""
    from tidelog.cli.admin import controllers  # noqa: PLC0415

    exit_with(lambda: controllers.add_controller(bootstrap, config, settings or ()))


@app.command("remove-controller")
def remove_controller(
    node_id: Annotated[int, typer.Argument(metavar="NODE", help="Its node.id.", min=0, max=INT32_MAX)],
    directory_id: Annotated[
        str | None,
        typer.Option(help="The directory of its metadata log; needed where the id is used by another since."),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Have a controller vote no more."""
    from tidelog.cli.admin import controllers  # noqa: PLC0415

    exit_with(lambda: controllers.remove_controller(bootstrap, node_id, directory_id))


@app.command()
def unregister(
    node_id: Annotated[int, typer.Argument(metavar="NODE", help="Its node.id.", min=0, max=INT32_MAX)],
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Have the cluster forget a broker that is stopped for good."""
    from tidelog.cli.admin.cluster import unregister_broker  # noqa: PLC0415

    exit_with(lambda: unregister_broker(bootstrap, node_id))
