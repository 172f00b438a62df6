"""Profiles: clusters by a name of one's own, kept in the user's directory of configuration.

    $XDG_CONFIG_HOME/tidelog (or ~/.config/tidelog), mode 0700
        profiles/NAME.properties        a client.properties with bootstrap.servers, mode 0600
        profile                         the name of the one in use

`TIDELOG_PROFILE` names another one for a command, and none where it is empty. Imported by every command of a cluster, so it
imports next to nothing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

VARIABLE = "TIDELOG_PROFILE"

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", re.ASCII)
_SUFFIX = ".properties"


def directory() -> str:
    # As the specification says, what is relative counts for nothing.
    base = os.environ.get("XDG_CONFIG_HOME", "")
    return os.path.join(base if os.path.isabs(base) else os.path.expanduser("~/.config"), "tidelog")  # noqa: PTH111, PTH117, PTH118


def name_in_use() -> str | None:
    """As the variable says, else as `tidelog profile use` did."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return named or None
    try:
        with open(_choice_path(), encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            return file.read(100).strip() or None
    except OSError:
        return None


def is_name(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def names() -> list[str]:
    try:
        there = os.listdir(_profiles_path())  # noqa: PTH208
    except FileNotFoundError:
        return []
    found = [each.removesuffix(_SUFFIX) for each in there if each.endswith(_SUFFIX)]
    return sorted(each for each in found if is_name(each))


def path_of(name: str) -> str:
    return os.path.join(_profiles_path(), name + _SUFFIX)  # noqa: PTH118


def write(name: str, properties: Mapping[str, str]) -> None:
    from tidelog.storage.properties import format_properties  # noqa: PLC0415 - for those who write one

    _write(path_of(name), format_properties(properties))


def use(name: str) -> None:
    _write(_choice_path(), name.encode() + b"\n")


def delete(name: str) -> None:
    """And use none, if it was the one in use."""
    os.unlink(path_of(name))  # noqa: PTH108
    try:
        with open(_choice_path(), encoding="utf-8", errors="replace") as file:  # noqa: PTH123
            is_chosen = file.read(100).strip() == name
    except FileNotFoundError:
        return
    if is_chosen:
        os.unlink(_choice_path())  # noqa: PTH108


def _profiles_path() -> str:
    return os.path.join(directory(), "profiles")  # noqa: PTH118


def _choice_path() -> str:
    return os.path.join(directory(), "profile")  # noqa: PTH118


def _write(path: str, content: bytes) -> None:
    """Whole or not at all, and never for a moment to be read by others."""
    above = os.path.dirname(path)  # noqa: PTH120
    for each in (directory(), above):
        os.makedirs(each, mode=0o700, exist_ok=True)  # noqa: PTH103
    # A name with the process's number, so that two commands at once do not meet.
    draft = f"{path}.{os.getpid()}.draft"
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        os.replace(draft, path)  # noqa: PTH105
    except BaseException:
        os.unlink(draft)  # noqa: PTH108
        raise
