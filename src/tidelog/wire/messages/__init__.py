"""Every message of Kafka's protocol and internal logs, declared in one module per family."""

import importlib
import pkgutil
from collections.abc import Iterator

from tidelog.wire.schema import Message, is_typed


def all_messages() -> Iterator[type[Message]]:
    """Every declared message, family by family. Imports all families: for tests and tools, not for a node that starts."""
    for module_info in pkgutil.walk_packages(__path__, f"{__name__}."):
        module = importlib.import_module(module_info.name)
        for value in vars(module).values():
            if not isinstance(value, type) or not issubclass(value, Message):
                continue
            if is_typed(value) or value.__module__ == module.__name__:
                yield value
