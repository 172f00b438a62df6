"""CRC-32C: `crc32c(data, value=0)`, the checksum of record batches and snapshots, compiled in the package `crc32c`.

That package, when it is imported, has its own metadata parsed as an e-mail and a command line prepared, which takes as long as a
tenth of a node's start. So its compiled module is loaded by itself; where it is not where it is expected, the package serves.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import module_from_spec

_PACKAGE = "crc32c"
_COMPILED = "_crc32c"


def _function() -> Callable[..., int]:
    if _PACKAGE not in sys.modules:
        package = PathFinder.find_spec(_PACKAGE)
        places = package.submodule_search_locations if package is not None else None
        spec = PathFinder.find_spec(_COMPILED, places) if places else None
        if spec is not None and isinstance(spec.loader, ExtensionFileLoader):
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            return module.crc32c  # type: ignore[no-any-return]
    from crc32c import crc32c as packaged  # noqa: PLC0415

    return packaged


crc32c = _function()
