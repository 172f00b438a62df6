"""Commands that talk to a cluster, and how they log in: whatever has `--bootstrap` has `--command-config` and `-X` as well.

    tidelog topics list --bootstrap broker:9093 --command-config client.properties
    tidelog topics list --bootstrap broker:9093 -X security.protocol=SSL -X ssl.truststore.location=ca.pem

The file is Kafka's `client.properties`, and the keys are Kafka's. Both are added here, in one place, to each command that is
declared with `--bootstrap`; what they come to is asked for by those who make a client (`cluster_login`). Where the file names
`bootstrap.servers` and `--bootstrap` is not given, they are used.

Where neither `--bootstrap` nor a file is given, by a variable neither, the profile in use is the file (`profiles`). Commands that
declare no default for `--bootstrap` know their cluster without it, and `profile` itself is about others: both use none.

`--bootstrap` may also be typed before the command, behind `tidelog` or the word of a group; what is nearest to the command holds.
"""

from __future__ import annotations

from typing import Any

from typer.core import TyperCommand, TyperGroup, TyperOption

from tidelog.cli import cluster_login

_BOOTSTRAP = "bootstrap"
_BEFORE = "bootstrap_before"

_WITHOUT_PROFILE = frozenset({"profile"})


class ClusterCommand(TyperCommand):
    """A command as Typer makes it; one with `--bootstrap` gets the options of a login."""

    def __init__(self, name: str | None, **declared: Any) -> None:
        params = list(declared.get("params") or ())
        declared_bootstrap = [each for each in params if each.name == _BOOTSTRAP]
        self._is_of_cluster = bool(declared_bootstrap)
        self._has_usual_cluster = any(each.default is not None for each in declared_bootstrap)
        if self._is_of_cluster:
            declared["params"] = [*params, *_options()]
        super().__init__(name, **declared)

    def invoke(self, ctx: Any) -> Any:
        before = ctx.meta.get(_BEFORE)
        if before is not None and not self._is_of_cluster:
            ctx.fail("no such option: --bootstrap, as this command talks to no cluster")
        if self._is_of_cluster:
            source = ctx.get_parameter_source(_BOOTSTRAP)
            if before is not None and source.name != "COMMANDLINE":
                ctx.params[_BOOTSTRAP] = before
                ctx.set_parameter_source(_BOOTSTRAP, type(source).COMMANDLINE)
            file, pairs = ctx.params.pop("command_config"), ctx.params.pop("command_property")
            command = _first_word(ctx)
            is_named = ctx.get_parameter_source(_BOOTSTRAP).name != "DEFAULT" or file is not None
            takes_profile = self._has_usual_cluster and not is_named and command not in _WITHOUT_PROFILE
            # A console of other clusters.
            takes_profile = takes_profile and not ctx.params.get("clusters")
            code = cluster_login.take(command, file, pairs or (), takes_profile=takes_profile)
            if code:
                ctx.exit(code)
            servers = cluster_login.bootstrap_servers()
            if servers is not None and ctx.get_parameter_source(_BOOTSTRAP).name == "DEFAULT":
                ctx.params[_BOOTSTRAP] = servers
        return super().invoke(ctx)


class ClusterGroup(TyperGroup):
    """Commands behind a word, which may have `--bootstrap` between the two."""

    def __init__(self, **declared: Any) -> None:
        declared["params"] = [*(declared.get("params") or ()), _bootstrap_before()]
        super().__init__(**declared)

    def invoke(self, ctx: Any) -> Any:
        given = ctx.params.pop(_BEFORE)
        if given is not None:
            ctx.meta[_BEFORE] = given
        return super().invoke(ctx)


def _first_word(ctx: Any) -> str:
    """What is typed behind `tidelog`, by which a command names itself when it complains."""
    while ctx.parent is not None and ctx.parent.parent is not None:
        ctx = ctx.parent
    return ctx.info_name or ""


def _bootstrap_before() -> TyperOption:
    return TyperOption(
        param_decls=[_BEFORE, "--bootstrap"],
        metavar="HOST:PORT,...",
        help="The cluster of a command that has this option, which may be typed here as well.",
    )


def _options() -> list[TyperOption]:
    return [
        TyperOption(
            param_decls=["command_config", "--command-config"],
            metavar="FILE",
            envvar="TIDELOG_COMMAND_CONFIG",
            show_envvar=True,
            help="A client.properties, with Kafka's keys: security.protocol, ssl.*, sasl.*.",
        ),
        TyperOption(
            param_decls=["command_property", "--command-property", "-X"],
            metavar="KEY=VALUE",
            multiple=True,
            help="One such key. May be given several times. Others can see what is typed: keep passwords in the file.",
        ),
    ]
