"""`tidelog pipeline` as it is typed. What it does is in the modules that each command imports when it runs."""

from __future__ import annotations

import importlib.util
from typing import Annotated

import typer

from tidelog.cli.command_group import command_group, exit_with
from tidelog.cli.node.broker_options import DEFAULT_METRICS_HOST
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption, MetricsHostOption, MetricsPortOption

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="A Python file that defines pipelines.")]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="Only the pipeline of this name. May be given several times."),
]
OtherClusterOption = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        metavar="HOST:PORT,...",
        envvar="TIDELOG_BOOTSTRAP",
        help="The cluster of the pipelines, instead of the file's.",
    ),
]

app = command_group("Run pipelines on Spark over the topics of any Kafka cluster.")


@app.callback()
def check() -> None:
    missing = [name for name in ("pyspark", "pyarrow") if importlib.util.find_spec(name) is None]
    if missing:
        from tidelog.cli.admin_session import EXIT_REFUSED, complain  # noqa: PLC0415

        sentence = f"pipelines need {' and '.join(missing)}: pip install tidelog[spark]"
        exit_with(lambda: complain("pipeline", sentence, EXIT_REFUSED))


@app.command()
def run(
    file: FileArgument,
    only: OnlyOption = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="End once all is read that is there now.")
    ] = False,
    master: Annotated[
        str | None, typer.Option(metavar="URL", help="Spark's, instead of the file's: local[*], spark://HOST:7077.")
    ] = None,
    package: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="What `tidelog pipeline package` has built, for the workers of a cluster."),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Configuration of Spark. May be given several times."),
    ] = None,
    bootstrap: OtherClusterOption = None,
    metrics_port: MetricsPortOption = None,
    metrics_host: MetricsHostOption = DEFAULT_METRICS_HOST,
    metrics_file: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Keep metrics in this file, also where checkpoints are URLs: it outlives the run."
        ),
    ] = None,
    lineage: Annotated[
        str | None,
        typer.Option(
            metavar="URL|FILE",
            envvar="OPENLINEAGE_URL",
            help="Tell a collector what is read and written, or keep it in a file, as OpenLineage's events. "
            "OPENLINEAGE_API_KEY is the key of the collector.",
        ),
    ] = None,
    lineage_namespace: Annotated[
        str, typer.Option(metavar="NAME", envvar="OPENLINEAGE_NAMESPACE", help="That of the jobs in these events.")
    ] = "tidelog",
    is_verbose: Annotated[bool, typer.Option("--verbose", help="Show what Spark logs, and its traces.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run the pipelines of a file until Ctrl-C, or until they have caught up, and show how far they are.

    A restart goes on where the last run has ended.
    """
    from tidelog.cli.pipeline.pipeline import RunOptions, run_pipelines  # noqa: PLC0415

    options = RunOptions(
        file,
        only or (),
        until_caught_up,
        master,
        package,
        conf or (),
        bootstrap,
        is_verbose,
        as_json,
        metrics_port,
        metrics_host,
        metrics_file,
        lineage,
        lineage_namespace,
    )
    exit_with(lambda: run_pipelines(options))


@app.command()
def validate(
    file: FileArgument,
    only: OnlyOption = None,
    without_spark: Annotated[
        bool, typer.Option("--without-spark", help="Leave out what only Spark can check: SQL, schemas and modes.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Find the mistakes in pipelines, all of them. Needs no cluster."""
    from tidelog.cli.pipeline.pipeline import validate_pipelines  # noqa: PLC0415

    exit_with(lambda: validate_pipelines(file, only or (), without_spark=without_spark, as_json=as_json))


@app.command()
def status(
    file: FileArgument, only: OnlyOption = None, bootstrap: OtherClusterOption = None, as_json: JsonOption = False
) -> None:
    """Show how far pipelines are: state, lag, rows per second, last batch."""
    from tidelog.cli.pipeline.pipeline_status import show_status  # noqa: PLC0415

    exit_with(lambda: show_status(file, only or (), bootstrap=bootstrap, as_json=as_json))


@app.command()
def show(
    file: FileArgument,
    only: OnlyOption = None,
    svg: Annotated[
        str | None, typer.Option(metavar="OUT", help="Draw a picture into this file, instead of lines on the terminal.")
    ] = None,
    bootstrap: OtherClusterOption = None,
) -> None:
    """Show what pipelines read, make and write, and how far behind they were over time. Needs no cluster and no Spark."""
    from tidelog.cli.pipeline.pipeline_show import show_pipelines  # noqa: PLC0415

    exit_with(lambda: show_pipelines(file, only or (), svg=svg, bootstrap=bootstrap))


@app.command()
def audit(
    pipeline: Annotated[str, typer.Argument(metavar="NAME", help="The name of a pipeline.")],
    batch: Annotated[int | None, typer.Option(metavar="N", min=0, help="All that is known of one batch.")] = None,
    row: Annotated[
        str | None,
        typer.Option(
            metavar="KEY",
            help="The batch of a row: TOPIC:PARTITION:OFFSET, of another cluster HOST:PORT/TOPIC:PARTITION:OFFSET; "
            "the name of a file of rows; or the text that a database's column for the batch holds.",
        ),
    ] = None,
    query: Annotated[
        str | None,
        typer.Option(
            metavar="QUERY", help="Only batches of this query: another checkpoint is another one. Else the newest."
        ),
    ] = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the sinks again, and compare rows and checksums.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Show what each batch of a pipeline was made of, and what came of it in every sink."""
    from tidelog.cli.pipeline.pipeline_audit import AuditQuestion, audit_pipeline  # noqa: PLC0415

    asked = AuditQuestion(pipeline, batch, row, query)
    exit_with(lambda: audit_pipeline(asked, verify=verify, bootstrap=bootstrap, as_json=as_json))


@app.command()
def recover(
    query: Annotated[
        str | None,
        typer.Argument(metavar="QUERY", help="The id that Spark gave the query, as `status` shows it; or txnAppId."),
    ] = None,
    is_for_all: Annotated[
        bool, typer.Option("--all", help="All queries that have something open and from which nothing has come lately.")
    ] = False,
    older_than: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="With --all: for how long, as in 10m, which it is if not given."),
    ] = None,
    prefix: Annotated[
        str | None, typer.Option(metavar="PREFIX", help="The sink's transactionalIdPrefix, if it had one.")
    ] = None,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Let the query go on behind a batch of which a part is lost."),
    ] = False,
    skip_sink: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Let the query go on without the rows that this sink of a pipeline refuses. May be given several times.",
        ),
    ] = None,
    skip_unreached: Annotated[
        bool,
        typer.Option("--skip-unreached", help="Skip it also if it is not reached, and may have the rows after all."),
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """End what a query that never returns has left open, so that readers of what is committed go on.

    The batch that was decided is committed, all else aborted. A query that does return goes on behind it.
    """
    from tidelog.cli.pipeline.pipeline_recovery import Recovery, recover_queries  # noqa: PLC0415

    asked = Recovery(query, is_for_all, older_than, prefix, accept_loss, tuple(skip_sink or ()), skip_unreached)
    exit_with(lambda: recover_queries(asked, bootstrap=bootstrap, as_json=as_json))


@app.command()
def package(
    output: Annotated[str, typer.Argument(metavar="FILE", help="The archive to write, a .zip.")],
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="NAME", help="One more package of this environment. May be given several times."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Build the archive that the workers of a Spark cluster need, for `run --package` or spark.archives."""
    from tidelog.cli.pipeline.pipeline import build_package  # noqa: PLC0415

    exit_with(lambda: build_package(output, more or (), as_json=as_json))
