"""`tidelog broker`, `up` and `format` as they are typed. What they do is in the modules that each imports when it runs."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from tidelog.cli.command_group import exit_with
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

app = typer.Typer()


class Sasl(StrEnum):
    """The mechanisms of `tidelog up --sasl`; `scram` is SCRAM-SHA-256."""

    PLAIN = "plain"
    SCRAM = "scram"
    SCRAM_SHA_512 = "scram-sha-512"
    OAUTHBEARER = "oauthbearer"


@app.command("broker")
def broker(
    config: ConfigOption = None,
    settings: SettingsOption = None,
    log_format: LogFormatOption = LogFormat.HUMAN,
    log_level: LogLevelOption = LogLevel.INFO,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = DEFAULT_METRICS_HOST,
    metrics_cert: Annotated[
        str | None,
        typer.Option("--metrics-cert", metavar="FILE", help="Show metrics by TLS, with this PEM certificate."),
    ] = None,
    metrics_key: Annotated[
        str | None,
        typer.Option("--metrics-key", metavar="FILE", help="Its key in PEM, where the certificate's file has none."),
    ] = None,
    metrics_token_file: Annotated[
        str | None,
        typer.Option(
            "--metrics-token-file", metavar="FILE", help="Show metrics to those alone who have the token in it."
        ),
    ] = None,
    is_strict: Annotated[
        bool, typer.Option("--strict", help="Refuse keys that nobody knows, instead of warning of them.")
    ] = False,
    is_led_by_stdin: Annotated[bool, typer.Option(LED_BY_STDIN, hidden=True)] = False,
) -> None:
    """Run one node until SIGTERM or SIGINT. A directory that is not formatted yet is formatted first.

    Variables such as TIDELOG_LOG_RETENTION_MS go before the file, and --set before both.
    """
    options = BrokerOptions(
        config,
        tuple(settings or ()),
        log_format,
        log_level,
        is_led_by_stdin,
        metrics_port,
        metrics_host,
        is_strict,
        metrics_cert,
        metrics_key,
        metrics_token_file,
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
    has_tls: Annotated[bool, typer.Option("--tls", help="Clients speak TLS; a CA and certificates are made.")] = False,
    is_mutual: Annotated[
        bool, typer.Option("--mtls", help="The same, and clients need a certificate of that CA; ACLs are on.")
    ] = False,
    sasl: Annotated[
        Sasl | None, typer.Option("--sasl", help="Clients log in; users admin and alice are made; ACLs are on.")
    ] = None,
    has_console: Annotated[
        bool, typer.Option("--console", help="Show the cluster in a browser, at an address that is printed.")
    ] = False,
    console_port: Annotated[
        int | None, typer.Option("--console-port", help="Where the console listens; 0 for any port.", min=0, max=65535)
    ] = None,
) -> None:
    """Run a cluster on this machine until Ctrl-C, each node as a process of its own.

    Prints a line that begins with `ready` and names the bootstrap addresses. DIR/cluster.json lists the nodes that run.
    With --tls, --mtls or --sasl, DIR/security has what clients need: client.properties as alice, admin.properties as admin.
    """
    security = "+".join(filter(None, ("mtls" if is_mutual else "tls" if has_tls else "", sasl)))
    options = UpOptions(
        nodes,
        port,
        directory,
        tuple(settings or ()),
        log_format,
        log_level,
        metrics_port,
        metrics_host,
        security or None,
        has_console or console_port is not None,
        console_port,
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
    scram_users: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            "-S",
            metavar="MECHANISM=[name=...,password=...]",
            help="A user to begin with, as in SCRAM-SHA-256=[name=alice,password=alice-secret]; may be repeated.",
        ),
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
        scram_users or (),
    )
    exit_with(lambda: run_format(options))
