"""`tidelog console` as it is typed. What it does is in `console`, which is imported when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.command_group import exit_with
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption

app = typer.Typer()

_DEFAULT_PORT = 8080
_DEFAULT_HOST = "127.0.0.1"


@app.command("console")
def console_(
    context: typer.Context,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="What the cluster is called on the screens.")
    ] = "cluster",
    clusters: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster", metavar="NAME=HOST:PORT,...", help="One more cluster, or the only one without --bootstrap."
        ),
    ] = None,
    cluster_configs: Annotated[
        list[str] | None,
        typer.Option(
            "--cluster-config", metavar="NAME=FILE", help="Its own client.properties, instead of --command-config."
        ),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", help="Where the console listens; 0 for any port.", min=0, max=65535)
    ] = (_DEFAULT_PORT),
    host: Annotated[
        str, typer.Option("--host", metavar="HOST", help="The address that it listens on: 0.0.0.0 for everywhere.")
    ] = _DEFAULT_HOST,
    allowed_hosts: Annotated[
        list[str] | None,
        typer.Option(
            "--allow-host", metavar="NAME", help="A name under which browsers may ask for it. May be repeated."
        ),
    ] = None,
    is_read_only: Annotated[bool, typer.Option("--read-only", help="Show, and change nothing.")] = False,
    user: Annotated[
        str | None,
        typer.Option("--as", metavar="USER", help="Everybody is this user, whose login --command-config has."),
    ] = None,
    traces: Annotated[
        list[str] | None,
        typer.Option("--trace", metavar="NODE=URL", help="The HTTP endpoint of a node that does not tell its own."),
    ] = None,
    trace_token_file: Annotated[
        str | None, typer.Option("--trace-token-file", metavar="FILE", help="The token that such endpoints ask for.")
    ] = None,
    trace_authorities: Annotated[
        str | None,
        typer.Option("--trace-ca", metavar="FILE", help="Authorities in PEM that their certificates are trusted by."),
    ] = None,
    registry: Annotated[
        str | None, typer.Option("--registry", metavar="URL", help="A schema registry, to read Avro and Protobuf by.")
    ] = None,
    audit_file: Annotated[
        str | None,
        typer.Option("--audit-file", metavar="FILE", help="Where changes are written down; else on standard error."),
    ] = None,
    tls_certificate: Annotated[
        str | None, typer.Option("--tls-cert", metavar="FILE", help="Serve by TLS, with this PEM certificate.")
    ] = None,
    tls_key: Annotated[
        str | None,
        typer.Option("--tls-key", metavar="FILE", help="Its key in PEM, where the certificate's file has none."),
    ] = None,
    play_fd: Annotated[int | None, typer.Option("--play-fd", hidden=True)] = None,
) -> None:
    """Look at clusters in a browser: topics, records, groups with their lag, transactions, and how a record moves.

    Works with any Kafka. Where the cluster asks for SASL, each person logs in as a user of it, and may do what that user may.
    """
    from tidelog.cli.console.console import ConsoleArguments, start_console  # noqa: PLC0415

    source = context.get_parameter_source("bootstrap")
    arguments = ConsoleArguments(
        bootstrap=None if clusters and source is not None and source.name == "DEFAULT" else bootstrap,
        name=name,
        clusters=clusters or (),
        cluster_configs=cluster_configs or (),
        host=host,
        port=port,
        allowed_hosts=allowed_hosts or (),
        is_read_only=is_read_only,
        user=user,
        traces=traces or (),
        trace_token_file=trace_token_file,
        trace_authorities=trace_authorities,
        registry=registry,
        audit_file=audit_file,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
        play_fd=play_fd,
    )
    exit_with(lambda: start_console(arguments))
