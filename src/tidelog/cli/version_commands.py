"""`tidelog version` as it is typed. What it does is in `version`, which is imported when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog import __version__

app = typer.Typer()


@app.command("version")
def version(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Say which Tidelog this is, and whether its kernels are compiled."""
    from tidelog.cli.version import print_version  # noqa: PLC0415

    print_version(__version__, as_json=as_json)
