"""`tidelog profile`: make, choose, show and delete profiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tidelog.cli import profiles
from tidelog.cli.admin_session import (
    EXIT_REFUSED,
    EXIT_WRONG_QUESTION,
    QuestionError,
    RefusalError,
    complain,
    print_json,
    print_line,
    print_table,
)
from tidelog.cli.cluster_login import given_properties, read_properties_file
from tidelog.model.config import did_you_mean

_COMMAND = "profile"
_SERVERS = "bootstrap.servers"
_PROTOCOL = "security.protocol"
_SECRET_WORDS = ("password", "secret", "jaas", "token", "assertion", "credentials")
# Keys of TLS, in PEM.
_SECRET_KEYS = frozenset({"ssl.keystore.key", "ssl.keystore.certificate.chain"})
_FILE_ENDING = ".location"
_NO_SECRET_ENDINGS = (_FILE_ENDING, ".type", ".file", ".url")


def create_profile(name: str, bootstrap: str, *, overwrites: bool) -> int:
    def work() -> None:
        if not profiles.is_name(name):
            raise QuestionError(
                f"{name!r} is no name of a profile: it is made of letters, digits, '.', '_' and '-', 64 at most, "
                "and begins with a letter, a digit or '_'"
            )
        if name in profiles.names() and not overwrites:
            raise RefusalError(f"there is a profile {name} already; --force writes over it")
        # The command that uses them may run elsewhere.
        kept = {
            key: str(Path(value).absolute()) if key.endswith(_FILE_ENDING) and value else value
            for key, value in given_properties().items()
        }
        profiles.write(name, {**kept, _SERVERS: bootstrap})
        print_line(f"profile {name} is {bootstrap}; `tidelog profile use {name}` makes it the one of all commands")

    return _run(work)


def use_profile(name: str) -> int:
    def work() -> None:
        properties = _read(name)
        profiles.use(name)
        print_line(f"commands talk to {properties.get(_SERVERS, 'no servers')} now, unless told otherwise")

    return _run(work)


def delete_profile(name: str) -> int:
    def work() -> None:
        _check_there(name)
        profiles.delete(name)
        print_line(f"deleted profile {name}")

    return _run(work)


def list_profiles(*, as_json: bool) -> int:
    def work() -> None:
        chosen = profiles.name_in_use()
        read = {name: _read(name) for name in profiles.names()}
        if as_json:
            print_json(
                {
                    "profile": name,
                    "in_use": name == chosen,
                    "bootstrap": each.get(_SERVERS),
                    "security": each.get(_PROTOCOL, "PLAINTEXT"),
                }
                for name, each in read.items()
            )
        elif not read:
            print_line("there are no profiles; `tidelog profile create` makes one")
        else:
            rows = [
                (name, "yes" if name == chosen else "no", each.get(_SERVERS, "-"), each.get(_PROTOCOL, "PLAINTEXT"))
                for name, each in read.items()
            ]
            print_table(["profile", "in use", "bootstrap", "security"], rows)

    return _run(work)


def show_profile(name: str | None, *, as_json: bool) -> int:
    def work() -> None:
        chosen = profiles.name_in_use() if name is None else name
        if chosen is None:
            raise RefusalError("no profile is in use; `tidelog profile use NAME` chooses one")
        shown = {key: "(hidden)" if _is_secret(key) else value for key, value in sorted(_read(chosen).items())}
        if as_json:
            print_json([{"profile": chosen, "file": profiles.path_of(chosen), "properties": shown}])
            return
        print_line(f"profile {chosen}, {profiles.path_of(chosen)}")
        for key, value in shown.items():
            print_line(f"{key}={value}")

    return _run(work)


def _run(work: Callable[[], None]) -> int:
    try:
        work()
    except QuestionError as error:
        return complain(_COMMAND, str(error), EXIT_WRONG_QUESTION)
    except RefusalError as error:
        return complain(_COMMAND, str(error), EXIT_REFUSED)
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.filename is None:
            raise
        return complain(_COMMAND, f"{error.filename}: {error.strerror or error}", EXIT_REFUSED)
    return 0


def _check_there(name: str) -> None:
    there = profiles.names()
    if name not in there:
        raise RefusalError(f"there is no profile {name}{did_you_mean(name, there)}")


def _read(name: str) -> Mapping[str, str]:
    _check_there(name)
    return read_properties_file(profiles.path_of(name))


def _is_secret(key: str) -> bool:
    if key in _SECRET_KEYS:
        return True
    return not key.endswith(_NO_SECRET_ENDINGS) and any(word in key for word in _SECRET_WORDS)
