"""The checksum, however its compiled module is come by."""

from __future__ import annotations

import subprocess
import sys
from importlib.machinery import PathFinder

import crc32c as package
import pytest

from tidelog.wire import crc32c as module

CHECK_VALUE = 0xE3069283  # Of "123456789", as every description of CRC-32C has it.


def test_the_check_value() -> None:
    assert module.crc32c(b"123456789") == CHECK_VALUE
    assert module.crc32c(memoryview(b"6789"), module.crc32c(b"12345")) == CHECK_VALUE


def test_the_package_is_not_imported_for_it() -> None:
    code = "import sys; from tidelog.wire.crc32c import crc32c; print(crc32c(b'123456789'), 'crc32c' in sys.modules)"

    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout

    assert said == f"{CHECK_VALUE} False\n"


def test_the_package_serves_where_it_is_imported_already() -> None:
    assert module._function() is package.crc32c


def test_the_package_serves_where_its_compiled_module_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "crc32c")
    monkeypatch.setattr(module, "PathFinder", _NothingCompiled)

    assert module._function()(b"123456789") == CHECK_VALUE


class _NothingCompiled(PathFinder):
    @classmethod
    def find_spec(cls, fullname, path=None, target=None):  # type: ignore[no-untyped-def]
        return None if fullname == "_crc32c" else super().find_spec(fullname, path, target)
