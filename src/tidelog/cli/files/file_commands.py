"""`tidelog dump-log` and `tidelog verify` as they are typed. What they do is in the modules that each imports when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.command_group import exit_with

app = typer.Typer()


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
    shows_secrets: Annotated[
        bool, typer.Option("--show-secrets", help="Also show passwords and keys in records of the metadata.")
    ] = False,
) -> None:
    """Show what is in log segments, indexes, snapshots and checkpoints, down to the first bad byte.

    Bytes that are UTF-8 are shown as text. Others are {"base64": ...} in JSON, and hexadecimal otherwise.
    """
    from tidelog.cli.files.dump_log import DumpOptions, dump_files  # noqa: PLC0415

    options = DumpOptions(as_json, batches_only, offset, limit, decode_as, shows_secrets)
    exit_with(lambda: dump_files(paths, options))


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

    exit_with(lambda: verify_directory(path, decodes_records=records, as_json=as_json))
