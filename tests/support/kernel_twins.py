"""The twins of compiled modules, for tests.

A process runs one twin of them all (`tidelog.kernel_choice`): `make test` runs the suite compiled, then the tests of the
packages that have compiled modules once more in plain Python. Of the kernels of the older kind, `kernels/<name>.py`, both
twins can be had in a process that runs compiled.
"""

from __future__ import annotations

import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

from tidelog import kernel_choice
from tidelog.kernel_choice import Twin, load_twin
from tidelog.wire import columns, records

PACKAGE = "tidelog.wire.kernels"
KERNELS = ("decode_kernel", "encode_kernel")
# Of those kernels, what a test can run over here.
TWINS: tuple[Twin, ...] = ("python", "compiled") if kernel_choice.choice.twin == "compiled" else ("python",)

# An extension type cannot be patched: what replaces one of its methods or attributes is for the run in plain Python.
plain_only = pytest.mark.skipif(kernel_choice.choice.twin == "compiled", reason="patches a type that is compiled here")


def can_compile() -> bool:
    """Whether this machine has what building a kernel takes."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return any(shutil.which(each) for each in (compiler, "cc", "gcc", "clang")) and headers.exists()


def twin_of(kernel: str, twin: Twin, package: str = PACKAGE) -> ModuleType:
    """One twin, whichever this process has chosen."""
    return load_twin(package, kernel, twin)


@contextmanager
def using(twin: Twin) -> Iterator[None]:
    """`tidelog.wire.records` and `tidelog.wire.columns` run on this twin."""
    decode, encode = (twin_of(kernel, twin) for kernel in KERNELS)
    with (
        mock.patch.object(records, "_decode_kernel", decode),
        mock.patch.object(records, "_encode_kernel", encode),
        mock.patch.object(columns, "_decode_kernel", decode),
        mock.patch.object(columns, "_encode_kernel", encode),
    ):
        yield


@pytest.fixture(params=TWINS)
def twin(request: pytest.FixtureRequest) -> Iterator[Twin]:
    """Import this fixture into a module whose tests hold for both twins."""
    chosen: Twin = request.param
    with using(chosen):
        yield chosen
