"""The administrative commands as they are typed. What they do is in the modules that each imports when it runs."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Annotated, NoReturn

import typer

from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, ConfigOption, JsonOption, SettingsOption
from tidelog.cli.reassign.reassign_commands import reassign
from tidelog.cli.transactions.transaction_commands import transactions

Exit = Callable[[Callable[[], int]], NoReturn]

INT16_MAX = 2**15 - 1
INT32_MAX = 2**31 - 1

NameArgument = Annotated[str, typer.Argument(metavar="NAME")]
GroupsArgument = Annotated[list[str], typer.Argument(metavar="GROUP")]
NamesArgument = Annotated[list[str], typer.Argument(metavar="NAME...")]
ResourceArgument = Annotated[
    str, typer.Argument(metavar="NAME", help="A topic, the number of a broker, or `default` for all brokers.")
]


class Kind(StrEnum):
    TOPIC = "topic"
    BROKER = "broker"


KindArgument = Annotated[Kind, typer.Argument(help="What has the configuration.")]


def add_to(app: typer.Typer, exit_with: Exit) -> None:
    """Add the commands to the command line. `exit_with` runs one and exits with its code."""
    app.add_typer(_topics(exit_with), name="topics")
    app.add_typer(_configs(exit_with), name="configs")
    app.add_typer(_cluster(exit_with), name="cluster")
    app.add_typer(_groups(exit_with), name="groups")
    app.add_typer(transactions(exit_with), name="transactions")
    app.add_typer(reassign(exit_with), name="reassign")


def _group(help_text: str) -> typer.Typer:
    return typer.Typer(help=help_text, no_args_is_help=True, rich_markup_mode=None)


def _topics(exit_with: Exit) -> typer.Typer:
    group = _group("List, describe, create and delete topics of any Kafka cluster.")

    @group.command("list")
    def list_(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
        """List all topics."""
        from tidelog.cli.admin.topics import list_topics  # noqa: PLC0415

        exit_with(lambda: list_topics(bootstrap, as_json=as_json))

    @group.command()
    def describe(
        names: NamesArgument, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False
    ) -> None:
        """Show the partitions of topics, and what they have configured."""
        from tidelog.cli.admin.topics import describe_topics  # noqa: PLC0415

        exit_with(lambda: describe_topics(bootstrap, names, as_json=as_json))

    @group.command()
    def create(
        name: NameArgument,
        partitions: Annotated[
            int | None, typer.Option(help="How many; without it what the cluster gives.", min=1, max=INT32_MAX)
        ] = None,
        replication_factor: Annotated[
            int | None,
            typer.Option(help="How many replicas each has; without it what the cluster gives.", min=1, max=INT16_MAX),
        ] = None,
        settings: Annotated[
            list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="A configuration key of the topic.")
        ] = None,
        if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="One that exists is no error.")] = False,
        bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    ) -> None:
        """Create a topic."""
        from tidelog.cli.admin.topics import create_topic  # noqa: PLC0415

        exit_with(
            lambda: create_topic(
                bootstrap,
                name,
                partitions=partitions,
                replication_factor=replication_factor,
                settings=settings or (),
                if_not_exists=if_not_exists,
            )
        )

    @group.command()
    def delete(
        names: NamesArgument,
        if_exists: Annotated[bool, typer.Option("--if-exists", help="One that does not exist is no error.")] = False,
        bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    ) -> None:
        """Delete topics with all their records."""
        from tidelog.cli.admin.topics import delete_topics  # noqa: PLC0415

        exit_with(lambda: delete_topics(bootstrap, names, if_exists=if_exists))

    @group.command("add-partitions")
    def add_partitions_(
        name: NameArgument,
        total: Annotated[int, typer.Option(help="How many the topic is to have then.", min=1, max=INT32_MAX)],
        bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    ) -> None:
        """Give a topic more partitions. Records stay where they are, but keys may go elsewhere from then on."""
        from tidelog.cli.admin.topics import add_partitions  # noqa: PLC0415

        exit_with(lambda: add_partitions(bootstrap, name, total=total))

    return group


def _configs(exit_with: Exit) -> typer.Typer:
    group = _group("Show and change the configuration of topics and brokers of any Kafka cluster.")

    @group.command()
    def show(
        kind: KindArgument,
        name: ResourceArgument,
        shows_all: Annotated[bool, typer.Option("--all", help="Also what has its default.")] = False,
        documented: Annotated[bool, typer.Option("--docs", help="Also what each key means.")] = False,
        bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
        as_json: JsonOption = False,
    ) -> None:
        """Show what is configured."""
        from tidelog.cli.admin.configs import show_configs  # noqa: PLC0415

        exit_with(
            lambda: show_configs(bootstrap, kind, name, shows_all=shows_all, documented=documented, as_json=as_json)
        )

    @group.command("set")
    def set_(
        kind: KindArgument,
        name: ResourceArgument,
        settings: Annotated[list[str], typer.Argument(metavar="KEY=VALUE...")],
        bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    ) -> None:
        """Set keys, all or none."""
        from tidelog.cli.admin.configs import change_configs  # noqa: PLC0415

        exit_with(lambda: change_configs(bootstrap, kind, name, settings=settings))

    @group.command()
    def unset(
        kind: KindArgument,
        name: ResourceArgument,
        keys: Annotated[list[str], typer.Argument(metavar="KEY...")],
        bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    ) -> None:
        """Give keys back to their defaults."""
        from tidelog.cli.admin.configs import change_configs  # noqa: PLC0415

        exit_with(lambda: change_configs(bootstrap, kind, name, removed=keys))

    return group


def _cluster(exit_with: Exit) -> typer.Typer:
    group = _group("Look at a Kafka cluster as a whole, and change it.")

    @group.command()
    def describe(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
        """Show the brokers, and who leads the metadata."""
        from tidelog.cli.admin.cluster import describe_cluster  # noqa: PLC0415

        exit_with(lambda: describe_cluster(bootstrap, as_json=as_json))

    @group.command()
    def status(bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False) -> None:
        """Show how the cluster does: its nodes and their roles, the quorum and its lag, partitions that are not whole."""
        from tidelog.cli.admin.cluster_status import show_status  # noqa: PLC0415

        exit_with(lambda: show_status(bootstrap, as_json=as_json))

    @group.command("rolling-restart")
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

    @group.command("add-controller")
    def add_controller(
        config: ConfigOption = None,
        settings: SettingsOption = None,
        bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    ) -> None:
        """Let a controller vote that runs and has caught up; its server.properties and its log directory say who it is."""
        from tidelog.cli.admin import controllers  # noqa: PLC0415

        exit_with(lambda: controllers.add_controller(bootstrap, config, settings or ()))

    @group.command("remove-controller")
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

    @group.command()
    def unregister(
        node_id: Annotated[int, typer.Argument(metavar="NODE", help="Its node.id.", min=0, max=INT32_MAX)],
        bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    ) -> None:
        """Have the cluster forget a broker that is stopped for good."""
        from tidelog.cli.admin.cluster import unregister_broker  # noqa: PLC0415

        exit_with(lambda: unregister_broker(bootstrap, node_id))

    return group


def _groups(exit_with: Exit) -> typer.Typer:
    group = _group("List and describe the consumer groups of any Kafka cluster, and change how far they are.")

    @group.command("list")
    def list_(
        states: Annotated[
            list[str] | None, typer.Option("--state", metavar="STATE", help="Only groups in this state, as Empty.")
        ] = None,
        types: Annotated[
            list[str] | None, typer.Option("--type", metavar="TYPE", help="Only groups of this type, as classic.")
        ] = None,
        bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
        as_json: JsonOption = False,
    ) -> None:
        """List all groups."""
        from tidelog.cli.groups.groups import list_groups  # noqa: PLC0415

        exit_with(lambda: list_groups(bootstrap, states=states or (), types=types or (), as_json=as_json))

    @group.command()
    def describe(
        names: GroupsArgument, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP, as_json: JsonOption = False
    ) -> None:
        """Show the members of groups, and which partitions each has."""
        from tidelog.cli.groups.groups import describe_groups  # noqa: PLC0415

        exit_with(lambda: describe_groups(bootstrap, names, as_json=as_json))

    @group.command()
    def lag(
        names: Annotated[list[str] | None, typer.Argument(metavar="GROUP")] = None,
        all_groups: Annotated[bool, typer.Option("--all", help="All groups.")] = False,
        bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
        as_json: JsonOption = False,
    ) -> None:
        """Show what groups have committed, and how far that is from the end."""
        from tidelog.cli.groups.groups import show_lag  # noqa: PLC0415

        exit_with(lambda: show_lag(bootstrap, names or (), all_groups=all_groups, as_json=as_json))

    @group.command("reset-offsets")
    def reset_offsets_(
        name: Annotated[str, typer.Argument(metavar="GROUP")],
        topics: Annotated[
            list[str] | None,
            typer.Argument(metavar="TOPIC[:PARTITION,...]", help="All partitions of a topic, or some."),
        ] = None,
        all_topics: Annotated[
            bool, typer.Option("--all-topics", help="Everything that the group has committed.")
        ] = False,
        to_earliest: Annotated[bool, typer.Option("--to-earliest", help="To the first record that is there.")] = False,
        to_latest: Annotated[
            bool, typer.Option("--to-latest", help="To the end: only what comes from now on.")
        ] = False,
        to_time: Annotated[
            str | None,
            typer.Option("--to-time", metavar="TIME", help="As 2026-11-16T08:00:00Z, or milliseconds since 1970."),
        ] = None,
        by_duration: Annotated[
            str | None, typer.Option("--by-duration", metavar="DURATION", help="So long ago: PT1H30M, 90m or 7d.")
        ] = None,
        shift_by: Annotated[
            int | None,
            typer.Option("--shift-by", metavar="N", help="So many records on, or back where negative."),
        ] = None,
        to_offset: Annotated[
            int | None, typer.Option("--to-offset", metavar="N", help="To this offset in every partition.", min=0)
        ] = None,
        from_file: Annotated[
            str | None,
            typer.Option(
                "--from-file", metavar="FILE", help="CSV (topic,partition,offset) or JSON, as --json prints it."
            ),
        ] = None,
        execute: Annotated[bool, typer.Option("--execute", help="Do it. Else the plan is shown.")] = False,
        bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
        as_json: JsonOption = False,
    ) -> None:
        """Have a group without members go on elsewhere. Shows the plan; --execute carries it out.

        An offset that the log does not hold becomes the nearest one that it does.
        """
        from tidelog.cli.groups.reset_offsets import ResetOptions, reset_offsets  # noqa: PLC0415

        options = ResetOptions(
            topics or (),
            all_topics,
            to_earliest,
            to_latest,
            to_time,
            by_duration,
            shift_by,
            to_offset,
            from_file,
            execute,
            as_json,
        )
        exit_with(lambda: reset_offsets(bootstrap, name, options))

    @group.command()
    def delete(names: GroupsArgument, bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP) -> None:
        """Delete groups without members, and all that they have committed."""
        from tidelog.cli.groups.groups import delete_groups  # noqa: PLC0415

        exit_with(lambda: delete_groups(bootstrap, names))

    return group
