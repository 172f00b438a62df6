"""`tidelog xray` as it is typed. What it does is in the module that it imports when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.command_group import exit_with
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption

app = typer.Typer()


@app.command("xray")
def xray(
    target: Annotated[
        str, typer.Argument(metavar="TOPIC:PARTITION[@OFFSET]", help="A record, or with --produce a partition.")
    ],
    produce: Annotated[bool, typer.Option("--produce", help="Send a probe record, and follow it as it moves.")] = False,
    count: Annotated[
        int, typer.Option("--count", help="With --produce: so many probes, one after the other.", min=1, max=10_000)
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each record.")] = False,
    as_svg: Annotated[bool, typer.Option("--svg", help="Print a drawing.")] = False,
    as_html: Annotated[bool, typer.Option("--html", help="Print a page with the drawing and the story.")] = False,
    trace: Annotated[
        list[str] | None,
        typer.Option("--trace", metavar="NODE=URL", help="Where a node tells what happens in it, if it does not say."),
    ] = None,
    token_file: Annotated[
        str | None, typer.Option("--trace-token-file", metavar="FILE", help="The token of those ports, over https.")
    ] = None,
    authorities: Annotated[
        str | None, typer.Option("--trace-ca", metavar="FILE", help="Who has signed their certificates, in PEM.")
    ] = None,
    wait_s: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", help="How long a consumer is waited for.", min=0, max=60)
    ] = 2.0,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Show where a record is and how it got there: batch, segment, index, replicas, high watermark, groups."""
    from tidelog.cli.xray.xray import XrayOptions, show_xray  # noqa: PLC0415

    options = XrayOptions(
        target,
        produce=produce,
        probes=count,
        forms=tuple(name for name, is_asked in (("json", as_json), ("svg", as_svg), ("html", as_html)) if is_asked),
        trace=tuple(trace or ()),
        token_file=token_file,
        authorities=authorities,
        wait_s=wait_s,
    )
    exit_with(lambda: show_xray(bootstrap, options))
