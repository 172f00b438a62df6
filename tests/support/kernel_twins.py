"""The twins of compiled modules, for tests.

A process runs one twin of them all (`tidelog.kernel_choice`): `make test` runs the suite compiled, then the tests of the
packages that have compiled modules once more in plain Python. Of a compiled module whose objects no other one knows by their
layout, both twins can be had in a process that runs compiled.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sysconfig
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

from tidelog import kernel_choice
from tidelog.kernel_choice import Twin
from tidelog.wire import columns, records

# What a test can run over here.
TWINS: tuple[Twin, ...] = ("python", "compiled") if kernel_choice.choice.twin == "compiled" else ("python",)

# An extension type cannot be patched: what replaces one of its methods or attributes is for the run in plain Python.
plain_only = pytest.mark.skipif(kernel_choice.choice.twin == "compiled", reason="patches a type that is compiled here")


def can_compile() -> bool:
    """Whether this machine has what building a kernel takes."""
    compiler = (sysconfig.get_config_var("CC") or "cc").split()[0]
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return any(shutil.which(each) for each in (compiler, "cc", "gcc", "clang")) and headers.exists()


@cache
def module_on(name: str, twin: Twin) -> ModuleType:
    """A compiled module as this process has it, or its source, loaded once more beside it."""
    module = importlib.import_module(name)
    if twin == kernel_choice.choice.twin:
        return module
    assert twin == "python", "a process in plain Python has no other twin"
    path = Path(kernel_choice.PACKAGE, *name.split(".")[1:]).with_suffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    source = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(source)
    return source


@contextmanager
def using(twin: Twin) -> Iterator[None]:
    """`tidelog.wire.records` and `tidelog.wire.columns` run on this twin."""
    with ExitStack() as stack:
        for module in (records, columns):
            for name in ("record_decoder", "record_encoder"):
                stack.enter_context(mock.patch.object(module, name, module_on(f"tidelog.wire.{name}", twin)))
        yield


@pytest.fixture(params=TWINS)
def twin(request: pytest.FixtureRequest) -> Iterator[Twin]:
    """Import this fixture into a module whose tests hold for both twins."""
    chosen: Twin = request.param
    with using(chosen):
        yield chosen
