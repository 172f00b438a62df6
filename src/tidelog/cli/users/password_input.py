"""A password as a person gives it to a command: typed unseen, from a file, or through a pipe. Never as an argument, which
every other user of the machine could read.
"""

from __future__ import annotations

import getpass
import sys

from tidelog.cli.admin_session import QuestionError

# A password that is longer is the wrong file.
PASSWORD_BYTES_MAX = 4096


def read_password(prompt: str, path: str | None) -> str:
    """The password, without the end of its line. QuestionError where there is none."""
    if path is None and sys.stdin.isatty():
        password = getpass.getpass(prompt)
        if getpass.getpass("again: ") != password:
            raise QuestionError("the two passwords differ")
    else:
        password = _first_line(path)
    if not password:
        raise QuestionError("the password is empty")
    return password


def _first_line(path: str | None) -> str:
    try:
        if path in {None, "-"}:
            data = sys.stdin.buffer.readline(PASSWORD_BYTES_MAX + 1)
        else:
            with open(str(path), "rb") as file:  # noqa: PTH123 - a path as it was typed
                data = file.readline(PASSWORD_BYTES_MAX + 1)
    except OSError as error:
        raise QuestionError(f"{path} cannot be read: {error.strerror}") from None
    if len(data) > PASSWORD_BYTES_MAX:
        raise QuestionError(f"the password is longer than {PASSWORD_BYTES_MAX} bytes")
    try:
        return data.decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise QuestionError("the password is not UTF-8 text") from None
