"""Options that several commands have. Imported with the command line itself, so it imports next to nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.node.broker_options import PORT_MAX, LogFormat, LogLevel

SettingsOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A configuration key of the node. May be given several times."),
]
LogFormatOption = Annotated[LogFormat, typer.Option("--log-format", help="How log lines look on standard error.")]
LogLevelOption = Annotated[LogLevel, typer.Option("--log-level", help="What is logged.")]
ConfigOption = Annotated[
    str | None, typer.Option("--config", metavar="FILE", help="A server.properties, in Kafka's syntax.")
]
BootstrapOption = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT,...",
        envvar="TIDELOG_BOOTSTRAP",
        help="One or more nodes of the cluster, Tidelog's or Apache Kafka's.",
    ),
]
MetricsPortOption = Annotated[
    int | None,
    typer.Option(
        "--metrics-port",
        help="Show metrics for Prometheus and, of a node, its health here; 0 for any port.",
        min=0,
        max=PORT_MAX,
    ),
]
MetricsHostOption = Annotated[
    str, typer.Option("--metrics-host", metavar="HOST", help="Where --metrics-port listens: 0.0.0.0 for everywhere.")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")]

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
