"""The command line with all its commands, as they are typed. What they do is in the modules that each imports when it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, NoReturn

import typer

from tidelog import __version__
from tidelog.cli.admin import admin_commands
from tidelog.cli.exit_code import exit_code_of
from tidelog.cli.main import start_broker, start_up
from tidelog.cli.node.broker_options import DEFAULT_METRICS_HOST, LED_BY_STDIN, BrokerOptions, LogFormat, LogLevel
from tidelog.cli.node.up_options import DEFAULT_PORT, UpOptions
from tidelog.cli.options import (
    ConfigOption,
    JsonOption,
    LogFormatOption,
    LogLevelOption,
    MetricsHostOption,
    MetricsPortOption,
    SettingsOption,
)
from tidelog.cli.pipeline import pipeline_commands
from tidelog.cli.records import client_commands


def _command_line() -> typer.Typer:
    return typer.Typer(
        name="tidelog",
        help="A distributed commit log that speaks Apache Kafka's protocol and keeps Apache Kafka's files.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )


app = _command_line()


def _print_version(is_asked: bool) -> None:
    if is_asked:
        typer.echo(f"tidelog {__version__}")
        raise typer.Exit


# It also keeps the commands subcommands, however many there are.
@app.callback()
def tidelog(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Say which Tidelog this is.")
    ] = False,
) -> None:
    pass


@app.command("version")
def version(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say which Tidelog this is, and whether its kernels are compiled."""
    from tidelog.cli.version import print_version  # noqa: PLC0415

    print_version(__version__, as_json=as_json)


@app.command("dump-log")
def dump_log(
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH...", help="Files of a data directory, or directories: all files in them."),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
    batches_only: Annotated[bool, typer.Option("--batches", help="Leave out the records of log files.")] = False,
    offset: Annotated[int | None, typer.Option(help="Begin at this offset.", min=0)] = None,
    limit: Annotated[
        int | None, typer.Option(help="Stop a file after so many records, batches (with --batches) or entries.", min=0)
    ] = None,
    decode_as: Annotated[
        str | None,
        typer.Option(
            metavar="TOPIC", help="Decode records as those of this internal topic. Else the directory decides."
        ),
    ] = None,
) -> None:
    """Show what is in log segments, indexes, snapshots and checkpoints, down to the first bad byte.

    Bytes that are UTF-8 are shown as text. Others are {"base64": ...} in JSON, and hexadecimal otherwise.
    """
    from tidelog.cli.files.dump_log import DumpOptions, dump_files  # noqa: PLC0415

    options = DumpOptions(as_json, batches_only, offset, limit, decode_as)
    _exit_with(lambda: dump_files(paths, options))


@app.command("verify")
def verify(
    path: Annotated[
        str, typer.Argument(metavar="DIR", help="The directory of `up`, of a node, of its data or of one partition.")
    ],
    records: Annotated[bool, typer.Option("--records", help="Also decode every record. Takes longer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> None:
    """Check every file of a data directory against every other. Changes nothing, and may run beside a broker.

    An error is a loss or a wrong answer; a warning is repaired by the next start, or a person should know it.
    """
    from tidelog.cli.files.verify import verify_directory  # noqa: PLC0415

    _exit_with(lambda: verify_directory(path, decodes_records=records, as_json=as_json))


@app.command("broker")
def broker(
    config: ConfigOption = None,
    settings: SettingsOption = None,
    log_format: LogFormatOption = LogFormat.HUMAN,
    log_level: LogLevelOption = LogLevel.INFO,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = DEFAULT_METRICS_HOST,
    is_strict: Annotated[
        bool, typer.Option("--strict", help="Refuse keys that nobody knows, instead of warning of them.")
    ] = False,
    is_led_by_stdin: Annotated[bool, typer.Option(LED_BY_STDIN, hidden=True)] = False,
) -> None:
    """Run one node until SIGTERM or SIGINT. A directory that is not formatted yet is formatted first.

    Variables such as TIDELOG_LOG_RETENTION_MS go before the file, and --set before both.
    """
    options = BrokerOptions(
        config, tuple(settings or ()), log_format, log_level, is_led_by_stdin, metrics_port, metrics_host, is_strict
    )
    raise typer.Exit(start_broker(options))


@app.command("up")
def up(
    nodes: Annotated[
        int | None, typer.Option("--nodes", help="How many nodes; without it as many as DIR has, or one.", min=1)
    ] = None,
    port: Annotated[
        int, typer.Option("--port", help="Port of the first node; 0 for any that is free.", min=0, max=65535)
    ] = DEFAULT_PORT,
    directory: Annotated[
        str | None, typer.Option("--dir", metavar="DIR", help="Keep the data here. Else it is temporary.")
    ] = None,
    settings: SettingsOption = None,
    log_format: LogFormatOption = LogFormat.HUMAN,
    log_level: LogLevelOption = LogLevel.WARNING,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = DEFAULT_METRICS_HOST,
) -> None:
    """Run a cluster on this machine until Ctrl-C, each node as a process of its own.

    Prints a line that begins with `ready` and names the bootstrap addresses. DIR/cluster.json lists the nodes that run.
    """
    options = UpOptions(
        nodes, port, directory, tuple(settings or ()), log_format, log_level, metrics_port, metrics_host
    )
    raise typer.Exit(start_up(options))


@app.command("format")
def format_(
    config: ConfigOption = None,
    settings: SettingsOption = None,
    cluster_id: Annotated[
        str | None, typer.Option("--cluster-id", help="Id of the cluster. Without it a new one is made.")
    ] = None,
    ignores_formatted: Annotated[
        bool, typer.Option("--ignore-formatted", help="Leave directories that are formatted as they are.")
    ] = False,
    is_standalone: Annotated[
        bool, typer.Option("--standalone", "-s", help="The node is the only voter, which is also the default.")
    ] = False,
    initial_controllers: Annotated[
        str | None,
        typer.Option(
            "--initial-controllers",
            "-I",
            metavar="ID@HOST:PORT:DIRECTORY-ID,...",
            help="The first voters, the same for every node of the cluster.",
        ),
    ] = None,
    no_initial_controllers: Annotated[
        bool, typer.Option("--no-initial-controllers", "-N", help="The node joins a cluster that has its voters.")
    ] = False,
    release_version: Annotated[
        str | None,
        typer.Option(
            "--release-version", "-r", help="Begin with the feature levels of this release of Kafka, 3.3 to 4.3."
        ),
    ] = None,
    features: Annotated[
        list[str] | None,
        typer.Option("--feature", "-f", metavar="NAME=LEVEL", help="A feature level to begin with; may be repeated."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Make the log directories of a node ready. One that is a cluster of its own also does it when it first starts."""
    from tidelog.cli.node.format import FormatOptions, run_format  # noqa: PLC0415

    options = FormatOptions(
        config,
        settings or (),
        cluster_id,
        ignores_formatted,
        as_json,
        is_standalone,
        initial_controllers,
        no_initial_controllers,
        release_version,
        features or (),
    )
    _exit_with(lambda: run_format(options))


def command_line(name: str | None) -> typer.Typer:
    """What reads a command line that begins with this word: all there is to a command of that name, or else all commands.

    A command line knows each option of each command that it has, which takes longer than most commands do.
    """
    commands = [each for each in app.registered_commands if each.name == name]
    groups = [each for each in app.registered_groups if each.name == name]
    if not commands and not groups:
        return app
    narrow = _command_line()
    narrow.registered_callback = app.registered_callback
    narrow.registered_commands = commands
    narrow.registered_groups = groups
    return narrow


def _exit_with(command: Callable[[], int]) -> NoReturn:
    """Run a command that may print a lot, and exit with its code."""
    raise typer.Exit(exit_code_of(command))


admin_commands.add_to(app, _exit_with)
client_commands.add_to(app, _exit_with)
app.add_typer(pipeline_commands.pipeline(_exit_with), name="pipeline")
