"""`tidelog produce` and `tidelog consume` as they are typed. What they do is in the modules that each imports when it runs."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from tidelog.cli.command_group import INT32_MAX, exit_with
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption

app = typer.Typer()


class Codec(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    SNAPPY = "snappy"
    LZ4 = "lz4"
    ZSTD = "zstd"


class Acks(StrEnum):
    NONE = "0"
    LEADER = "1"
    ALL = "all"


class GroupProtocol(StrEnum):
    CLASSIC = "classic"
    CONSUMER = "consumer"


@app.command("produce")
def produce_(
    topic: Annotated[str, typer.Argument(metavar="TOPIC")],
    files: Annotated[
        list[str] | None, typer.Argument(metavar="FILE", help="Instead of standard input, which is also `-`.")
    ] = None,
    key_separator: Annotated[
        str | None, typer.Option("--key-separator", metavar="TEXT", help="What is before it in a line is the key.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", metavar="TEXT", help="The key of every record.")] = None,
    headers: Annotated[
        list[str] | None, typer.Option("--header", metavar="NAME=TEXT", help="A header of every record.")
    ] = None,
    null_marker: Annotated[
        str | None, typer.Option("--null", metavar="TEXT", help="A key or value that is exactly this is null.")
    ] = None,
    from_json: Annotated[
        bool, typer.Option("--from-json", help="Lines are JSON objects, as `tidelog consume --json` prints them.")
    ] = False,
    partition: Annotated[
        int | None, typer.Option(help="Else the key decides, or chance.", min=0, max=INT32_MAX)
    ] = None,
    codec: Annotated[Codec, typer.Option(help="How batches are compressed.")] = Codec.NONE,
    acks: Annotated[Acks, typer.Option(help="Who has to have a record before it counts as written.")] = Acks.ALL,
    rate: Annotated[
        float | None, typer.Option(metavar="N", help="At most so many records a second.", min=0.001, max=1e9)
    ] = None,
    count: Annotated[int | None, typer.Option(metavar="N", help="Stop after so many records.", min=0)] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: Annotated[bool, typer.Option("--json", help="Print how many records were written.")] = False,
) -> None:
    """Write lines of standard input, or of files, as records into a topic.

    Values are the bytes of the lines. Ctrl-C stops after what was read is written.
    """
    from tidelog.cli.records.produce import ProduceOptions, produce  # noqa: PLC0415

    options = ProduceOptions(
        files or (),
        key,
        key_separator,
        headers or (),
        null_marker,
        from_json,
        partition,
        codec,
        acks,
        rate,
        count,
        as_json,
    )
    exit_with(lambda: produce(bootstrap, topic, options))


@app.command("consume")
def consume_(
    topics: Annotated[
        list[str],
        typer.Argument(
            metavar="TOPIC[:PARTITION,...]",
            help="All partitions of a topic, or some; ^PATTERN for all topics of such a name.",
        ),
    ],
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="WHERE",
            help="beginning (if not told otherwise), end, an offset, or -N for the last N records of each partition.",
        ),
    ] = None,
    start_time: Annotated[
        str | None,
        typer.Option(
            "--from-time",
            metavar="TIME",
            help="As 2026-11-16T08:00:00Z, milliseconds since 1970, or -1h, -30m, -2d ago.",
        ),
    ] = None,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Wait for more at the end, until Ctrl-C. --from end does so too.")
    ] = False,
    count: Annotated[int | None, typer.Option(metavar="N", help="Stop after so many records.", min=0)] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop when no record came for so long.", min=0)
    ] = None,
    group: Annotated[
        str | None, typer.Option(metavar="GROUP", help="Be a member of it: go on where it is, and commit.")
    ] = None,
    share: Annotated[
        str | None,
        typer.Option(metavar="GROUP", help="Be a member of this share group: get what it gives, and accept it."),
    ] = None,
    group_protocol: Annotated[
        GroupProtocol, typer.Option(help="How the members share: among them, or by the coordinator (KIP-848).")
    ] = GroupProtocol.CLASSIC,
    keys: Annotated[bool, typer.Option("--keys", help="Show keys.")] = False,
    headers: Annotated[bool, typer.Option("--headers", help="Show headers.")] = False,
    times: Annotated[bool, typer.Option("--times", help="Show timestamps.")] = False,
    offsets: Annotated[bool, typer.Option("--offsets", help="Show topic, partition and offset.")] = False,
    separator: Annotated[str, typer.Option(metavar="TEXT", help="Between what is shown; a tab if not told.")] = "\t",
    text: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="TEXT",
            help="As '%t %p %o %k %v\\n': topic, partition, offset, key, value; %T time, %h headers, %K %S sizes.",
        ),
    ] = None,
    grep: Annotated[
        str | None,
        typer.Option("--grep", metavar="PATTERN", help="Only records with this regular expression in key or value."),
    ] = None,
    expression: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="EXPR",
            help="Only records of which this holds, as json.amount > 10 and headers.shop == 'north'.",
        ),
    ] = None,
    output: Annotated[
        str | None, typer.Option("--output", "-o", metavar="FILE", help="Write into a new file instead of printing.")
    ] = None,
    overwrites: Annotated[bool, typer.Option("--force", help="Let --output write over a file that exists.")] = False,
    read_committed: Annotated[
        bool, typer.Option("--read-committed", help="Leave out records of transactions that did not commit.")
    ] = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Print the records of topics, up to where they end now.

    Values are printed as they are, one a line.
    """
    from tidelog.cli.records.consume import ConsumeOptions, consume  # noqa: PLC0415
    from tidelog.cli.records.output_records import OutputFormat  # noqa: PLC0415

    form = OutputFormat(
        keys,
        headers,
        times,
        offsets,
        as_json,
        separator.replace("\\t", "\t").encode(errors="surrogateescape"),
        output is None and sys.stdout.isatty(),
        text,
    )
    options = ConsumeOptions(
        start,
        start_time,
        follow,
        count,
        timeout,
        group,
        share,
        group_protocol,
        read_committed,
        form,
        grep,
        expression,
        output,
        overwrites,
    )
    exit_with(lambda: consume(bootstrap, topics, options))
