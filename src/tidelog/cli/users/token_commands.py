"""`tidelog tokens` as it is typed. What it does is in the module that each command imports when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.command_group import INT64_MAX, command_group, exit_with
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption

IdArgument = Annotated[str, typer.Argument(metavar="TOKEN_ID")]
ShowOption = Annotated[bool, typer.Option("--show-hmac", help="Show what clients log in with, too.")]

app = command_group("Create, renew, expire and list delegation tokens of any Kafka cluster.")


@app.command()
def create(
    renewers: Annotated[
        list[str] | None,
        typer.Option("--renewer", metavar="User:NAME", help="Who else may renew it; may be repeated."),
    ] = None,
    owner: Annotated[
        str | None, typer.Option("--owner", metavar="User:NAME", help="Whose it is; without it the caller's.")
    ] = None,
    max_lifetime_ms: Annotated[
        int | None, typer.Option("--max-lifetime-ms", help="How long it lives at most.", min=1, max=INT64_MAX)
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Create a token. Its id and HMAC are user name and password of a login by SCRAM with tokenauth."""
    from tidelog.cli.users.tokens import create_token  # noqa: PLC0415

    exit_with(
        lambda: create_token(
            bootstrap, renewers=renewers or (), owner=owner, max_lifetime_ms=max_lifetime_ms, as_json=as_json
        )
    )


@app.command()
def renew(
    token_id: IdArgument,
    period_ms: Annotated[
        int | None,
        typer.Option("--period-ms", help="For how long; without it the cluster's time.", min=1, max=INT64_MAX),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Let a token that the caller owns or may renew live longer."""
    from tidelog.cli.users.tokens import renew_token  # noqa: PLC0415

    exit_with(lambda: renew_token(bootstrap, token_id, period_ms=period_ms, as_json=as_json))


@app.command()
def expire(
    token_id: IdArgument,
    period_ms: Annotated[
        int | None, typer.Option("--period-ms", help="After how long; without it at once.", min=0, max=INT64_MAX)
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """Let a token end, at once or soon."""
    from tidelog.cli.users.tokens import expire_token  # noqa: PLC0415

    exit_with(lambda: expire_token(bootstrap, token_id, period_ms=period_ms, as_json=as_json))


@app.command("list")
def list_(
    owners: Annotated[
        list[str] | None,
        typer.Option(
            "--owner", metavar="User:NAME", help="Only those that this user owns or may renew; may be repeated."
        ),
    ] = None,
    shows_hmac: ShowOption = False,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """List the tokens that the caller may see."""
    from tidelog.cli.users.tokens import list_tokens  # noqa: PLC0415

    exit_with(lambda: list_tokens(bootstrap, owners=owners, shows_hmac=shows_hmac, as_json=as_json))
