"""`tidelog users` as it is typed. What it does is in the module that each command imports when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.command_group import INT32_MAX, command_group, exit_with
from tidelog.cli.options import DEFAULT_BOOTSTRAP, BootstrapOption, JsonOption

NameArgument = Annotated[str, typer.Argument(metavar="NAME")]
MechanismOption = Annotated[
    str, typer.Option("--mechanism", metavar="MECHANISM", help="SCRAM-SHA-256 or SCRAM-SHA-512.")
]
IterationsOption = Annotated[
    int, typer.Option("--iterations", help="How often it is hashed, 4096 to 16384.", min=1, max=INT32_MAX)
]
PasswordFileOption = Annotated[
    str | None,
    typer.Option(
        "--password-file", metavar="FILE", help="The password, instead of being asked for it; - for standard input."
    ),
]

DEFAULT_MECHANISM = "SCRAM-SHA-256"

app = command_group("List users that log in by SCRAM to any Kafka cluster, and give them passwords.")


@app.command("list")
def list_(
    names: Annotated[list[str] | None, typer.Argument(metavar="[NAME]...")] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
    as_json: JsonOption = False,
) -> None:
    """List users and what kind of password each has."""
    from tidelog.cli.users.users import list_users  # noqa: PLC0415

    exit_with(lambda: list_users(bootstrap, names or (), as_json=as_json))


@app.command()
def add(
    name: NameArgument,
    mechanism: MechanismOption = DEFAULT_MECHANISM,
    iterations: IterationsOption = 4096,
    password_file: PasswordFileOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Give a new user a password. It is asked for, and not shown; from a pipe the first line is taken."""
    from tidelog.cli.users.users import set_password  # noqa: PLC0415

    exit_with(
        lambda: set_password(
            bootstrap, name, mechanism=mechanism, iterations=iterations, password_file=password_file, is_new=True
        )
    )


@app.command("set")
def set_(
    name: NameArgument,
    mechanism: MechanismOption = DEFAULT_MECHANISM,
    iterations: IterationsOption = 4096,
    password_file: PasswordFileOption = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Give a user a password, whether there is one already or not."""
    from tidelog.cli.users.users import set_password  # noqa: PLC0415

    exit_with(
        lambda: set_password(
            bootstrap, name, mechanism=mechanism, iterations=iterations, password_file=password_file, is_new=False
        )
    )


@app.command()
def remove(
    name: NameArgument,
    mechanism: Annotated[
        str | None,
        typer.Option("--mechanism", metavar="MECHANISM", help="Only this password; without it all of the user's."),
    ] = None,
    bootstrap: BootstrapOption = DEFAULT_BOOTSTRAP,
) -> None:
    """Take a user's passwords away. Connections that are open stay open."""
    from tidelog.cli.users.users import remove_user  # noqa: PLC0415

    exit_with(lambda: remove_user(bootstrap, name, mechanism=mechanism))
