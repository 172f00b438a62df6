"""Pipelines as a service of this machine, for systemd. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.spark.pipelines.deploying.placement import References

# A stop waits for the batch that is under way: 30 s, and Spark's own end.
_STOP_S = 90
_RESTART_S = 10


def service_unit(command: Sequence[str], directory: str, names: Sequence[str], references: References) -> str:
    """`command` is what runs them, in its words."""
    environment = ""
    if references.variables:
        environment = (
            f"# {', '.join(references.variables)}: a line NAME=VALUE each, readable for root alone.\n"
            f"EnvironmentFile=/etc/tidelog/{'-'.join(names)}.env\n"
        )
    return f"""\
[Unit]
Description=Tidelog pipelines {", ".join(names)}
Wants=network-online.target
After=network-online.target

[Service]
ExecStart={" ".join(_word(each) for each in command)}
WorkingDirectory={directory}
{environment}Restart=on-failure
RestartSec={_RESTART_S}
# The first signal has batches that are under way come to their end.
KillSignal=SIGTERM
KillMode=mixed
TimeoutStopSec={_STOP_S}
NoNewPrivileges=yes
PrivateTmp=yes

[Install]
WantedBy=multi-user.target
"""


def _word(text: str) -> str:
    escaped = text.replace("\\\\", "\\\\\\\\").replace("%", "%%").replace("$", "$$").replace('"', '\\\\"')
    return f'"{escaped}"' if escaped != text or " " in text or not text else text
