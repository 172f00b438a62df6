"""Ends a staged output, and is killed at one of its effects. Arguments: the output as JSON, and the number of the effect."""

from __future__ import annotations

import os
import signal
import sys

import msgspec
import pytest

from tests.support.iceberg_sink import cut_at
from tidelog.spark.outputs.manifest_store import kind_of_output, read_manifest
from tidelog.spark.outputs.staged import StagedOutput


def main() -> None:
    output = msgspec.json.decode(sys.argv[1], type=StagedOutput)
    with pytest.MonkeyPatch.context() as patch:
        cut_at(patch, int(sys.argv[2]), lambda: os.kill(os.getpid(), signal.SIGKILL))
        kind_of_output(output).end(read_manifest(output))


if __name__ == "__main__":
    main()
