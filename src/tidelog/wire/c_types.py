"""C's types by name, for the sources that `tools/inline_functions.py` writes once more for compiled modules."""

from __future__ import annotations

from typing import TypeAlias

Data: TypeAlias = bytes | bytearray | memoryview
"""Where bytes are that are read: a pointer in C."""
Room: TypeAlias = bytearray | memoryview
"""Where bytes are that are written."""
Size: TypeAlias = int
"""A position, a length, a number of elements: `Py_ssize_t`."""
Bits: TypeAlias = int
"""64 bits without a sign."""
