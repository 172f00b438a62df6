"""`tidelog pipeline` as it is typed. What it does is in the modules that each command imports when it runs."""

from __future__ import annotations

import importlib.util
from typing import Annotated

import typer

from tidelog.cli.command_group import command_group, exit_with
from tidelog.cli.node.broker_options import DEFAULT_METRICS_HOST
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption, MetricsHostOption, MetricsPortOption

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A file that defines pipelines, in Python or in SQL.")
]
OnlyOption = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="Only the pipeline of this name. May be given several times."),
]
MasterOption = Annotated[
    str | None,
    typer.Option("--master", metavar="URL", help="Spark's, instead of the file's: local[*], spark://HOST:7077."),
]
VerboseOption = Annotated[bool, typer.Option("--verbose", help="Show what Spark logs, and its traces.")]
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
    master: MasterOption = None,
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
    is_verbose: VerboseOption = False,
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
def preview(
    file: FileArgument,
    only: OnlyOption = None,
    rows: Annotated[int, typer.Option(metavar="N", min=1, max=1000, help="So many rows of each step.")] = 5,
    sample: Annotated[
        int, typer.Option(metavar="M", min=1, max=1_000_000, help="Of so many records of each source, the newest.")
    ] = 1000,
    master: MasterOption = None,
    bootstrap: OtherClusterOption = None,
    is_verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Show the first rows of each step of a pipeline, made of records that are there. Writes nothing anywhere."""
    from tidelog.cli.pipeline.pipeline_preview import PreviewOptions, preview_pipelines  # noqa: PLC0415

    options = PreviewOptions(file, only or (), rows, sample, master, bootstrap, is_verbose, as_json)
    exit_with(lambda: preview_pipelines(options))


@app.command()
def diff(
    old: Annotated[str, typer.Argument(metavar="OLD", help="The file of one version.")],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The file of the other one.")],
    since: Annotated[
        str, typer.Option("--from", metavar="TIME", help="Of records from then on; or earliest.")
    ] = "earliest",
    until: Annotated[str, typer.Option("--to", metavar="TIME", help="Up to then; or latest.")] = "latest",
    sink: Annotated[
        str | None, typer.Option(metavar="SINK", help="Compare what this sink gets, of both; by its name.")
    ] = None,
    key: Annotated[
        str | None, typer.Option(metavar="COLUMN,...", help="Tell rows with equal values of these side by side.")
    ] = None,
    limit: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Show so many differences at most.")] = 20,
    records_max: Annotated[int, typer.Option(metavar="N", min=1, help="Refuse a range of more records.")] = 10_000_000,
    only: Annotated[str | None, typer.Option(metavar="NAME", help="The pipeline of this name, of both.")] = None,
    master: MasterOption = None,
    bootstrap: OtherClusterOption = None,
    is_verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Compare what two versions of a pipeline make of the same records. The exit code is 1 where that differs."""
    from tidelog.cli.pipeline.pipeline_diff import DiffOptions, diff_pipelines  # noqa: PLC0415

    options = DiffOptions(
        old, new, only, since, until, sink, key, limit, records_max, master, bootstrap, is_verbose, as_json
    )
    exit_with(lambda: diff_pipelines(options))


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
    starts: Annotated[
        bool,
        typer.Option(
            "--starting-offsets",
            help="Print where a new version begins: behind the last batch, or at the beginning of --batch N.",
        ),
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Show what each batch of a pipeline was made of, and what came of it in every sink."""
    from tidelog.cli.pipeline.pipeline_audit import AuditQuestion, audit_pipeline  # noqa: PLC0415

    asked = AuditQuestion(pipeline, batch, row, query, starts)
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
def backfill(
    file: FileArgument,
    since: Annotated[str, typer.Option("--from", metavar="TIME", help="Of records from then on; or earliest.")],
    until: Annotated[str, typer.Option("--to", metavar="TIME", help="Up to then; or latest.")],
    only: Annotated[str | None, typer.Option(metavar="NAME", help="The pipeline of this name.")] = None,
    into: Annotated[
        str | None,
        typer.Option(metavar="TABLE", help="Write to a new Delta table at this path or URL, and replace nothing."),
    ] = None,
    sink: Annotated[
        str | None,
        typer.Option(metavar="SINK", help="With --into: of several sinks the one whose rows are made, by its name."),
    ] = None,
    execute: Annotated[bool, typer.Option("--execute", help="Do it. Without it the plan is shown.")] = False,
    master: MasterOption = None,
    package: Annotated[
        str | None, typer.Option(metavar="FILE", help="As of `run`, for the workers of a cluster.")
    ] = None,
    bootstrap: OtherClusterOption = None,
    is_verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make rows of a table anew by what the file says now: of whole batches, in the place of those that are there.

    The pipeline may run meanwhile: its group and its checkpoint stay as they are.
    """
    from tidelog.cli.pipeline.pipeline_backfill import BackfillOptions, backfill_pipeline  # noqa: PLC0415

    options = BackfillOptions(
        file, only, since, until, into, sink, execute, master, package, bootstrap, is_verbose, as_json
    )
    exit_with(lambda: backfill_pipeline(options))


@app.command()
def chaos(
    file: FileArgument,
    only: OnlyOption = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="The order of kills and the rows. Else by chance.")
    ] = None,
    minutes: Annotated[float, typer.Option(metavar="N", min=0.1, max=600, help="How long.")] = 2.0,
    rate: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Rows a second into each topic.")] = 100,
    late: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="How late rows may be, as in '5 minutes'. Else half of what the source's watermark waits for.",
        ),
    ] = None,
    rows: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TOPIC=FILE",
            help="Rows for a topic, as JSON lines, instead of some that are made up. Several times.",
        ),
    ] = None,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column that is never the same twice. May be given several times."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Kill drivers, workers and brokers under pipelines, and see whether each row came out once.

    On a cluster and a Spark of their own on this machine: nothing is written to where the pipelines write.
    """
    from random import SystemRandom  # noqa: PLC0415

    from tidelog.cli.pipeline.pipeline_chaos import ChaosOptions, chaos as run_chaos  # noqa: PLC0415

    chosen = SystemRandom().randrange(1 << 31) if seed is None else seed
    options = ChaosOptions(file, only or (), chosen, minutes, rate, late, rows or (), ignore or (), as_json)
    exit_with(lambda: run_chaos(options))


@app.command(name="replay-dead-letters")
def replay_dead_letters(
    file: FileArgument,
    only: OnlyOption = None,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Only letters whose reason is this, or begins with it.")
    ] = None,
    since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only those that have become dead letters since.")
    ] = None,
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="So many at most.")] = None,
    replays_max: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="A letter that has gone so often stays: it would come back for ever."),
    ] = 3,
    execute: Annotated[bool, typer.Option("--execute", help="Send them. Without it they are only counted.")] = False,
    bootstrap: OtherClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Send dead letters back to the topics that they came from, each once. Needs no Spark.

    A group remembers which have gone, in the transaction in which they go.
    """
    from tidelog.cli.pipeline.pipeline_replay import ReplayOptions, replay_letters  # noqa: PLC0415

    options = ReplayOptions(file, only or (), reason, since, limit, replays_max, execute, bootstrap, as_json)
    exit_with(lambda: replay_letters(options))


@app.command()
def deploy(
    file: FileArgument,
    target: Annotated[
        str, typer.Option(metavar="TARGET", help="local, spark://HOST:PORT, k8s://https://HOST:PORT or yarn.")
    ],
    only: OnlyOption = None,
    out: Annotated[str, typer.Option(metavar="DIR", help="Where to write what the target takes.")] = "deploy",
    shared: Annotated[
        list[str] | None,
        typer.Option(metavar="DIR", help="A directory that all machines have, the same. May be given several times."),
    ] = None,
    image: Annotated[str, typer.Option(metavar="NAME", help="Kubernetes: that of driver and executors.")] = (
        "tidelog-pipelines:latest"
    ),
    base_image: Annotated[
        str | None, typer.Option(metavar="NAME", help="Kubernetes: what it is built on, with Spark and Python.")
    ] = None,
    namespace: Annotated[str, typer.Option(metavar="NAME", help="Kubernetes: that of all that is made.")] = "default",
    executors: Annotated[int, typer.Option(metavar="N", min=1, max=10_000, help="Kubernetes: how many.")] = 2,
    driver_memory: Annotated[str, typer.Option(metavar="SIZE", help="Kubernetes: Java's heap, as in 2g.")] = "1g",
    executor_memory: Annotated[str, typer.Option(metavar="SIZE", help="Kubernetes: Java's heap, as in 2g.")] = "1g",
    more: Annotated[
        list[str] | None,
        typer.Option("--with", metavar="NAME", help="One more package for the workers. May be given several times."),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Configuration of Spark, where it is run here."),
    ] = None,
    until_caught_up: Annotated[
        bool, typer.Option("--until-caught-up", help="Where it is run here, end once all is read that is there now.")
    ] = False,
    is_dry_run: Annotated[bool, typer.Option("--dry-run", help="Check, and show what would be written.")] = False,
    bootstrap: OtherClusterOption = None,
    as_json: JsonOption = False,
) -> None:
    """Check pipelines for where they are to run, write what it takes, and run them where the driver is on this machine."""
    from tidelog.cli.pipeline.pipeline_deploy import DeployOptions, deploy_pipelines  # noqa: PLC0415
    from tidelog.spark.pipelines.deploying.kubernetes_files import KubernetesSettings  # noqa: PLC0415

    settings = KubernetesSettings(image, namespace, executors, driver_memory, executor_memory)
    options = DeployOptions(
        file,
        only or (),
        target,
        out,
        shared or (),
        settings,
        base_image,
        bootstrap,
        is_dry_run,
        until_caught_up,
        conf or (),
        more or (),
        as_json,
    )
    exit_with(lambda: deploy_pipelines(options))


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
