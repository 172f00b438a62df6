"""Pipelines on a Hadoop cluster: the script that submits them. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from tidelog.spark.pipelines.session import PACKAGES


def submit_script(file: str, names: Sequence[str], package: str) -> str:
    """The driver runs where the script does, as `tidelog pipeline run` with YARN's executors."""
    words = [
        *("tidelog pipeline run", shlex.quote(file), "--master yarn", "--package", shlex.quote(package)),
        *(f"--only {shlex.quote(each)}" for each in names),
    ]
    return (
        "#!/bin/sh\n"
        "# Not validated: there was no Hadoop to run it on. HADOOP_CONF_DIR names the cluster's configuration.\n"
        "set -eu\n"
        ': "${HADOOP_CONF_DIR:?}"\n'
        f"# The package is unpacked as {PACKAGES} beside each executor.\n"
        f"exec {' '.join(words)}\n"
    )
