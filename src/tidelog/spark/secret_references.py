"""Options that refer to a secret instead of holding it: Spark keeps options in plans, and shows them.

    kafka.sasl.password        ${env:KAFKA_PASSWORD}
    kafka.sasl.jaas.config     ${file:/run/secrets/kafka.properties:jaas}
    kafka.ssl.keystore.key     ${directory:/run/secrets:client.key}

The forms are those of Kafka's EnvVarConfigProvider, FileConfigProvider and DirectoryConfigProvider. A reference stays one until a
client is made, in the process that makes it: the driver's, and each worker's. Both need the variable or the file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tidelog.spark.errors import OptionError

# A secret that is longer is another file.
FILE_BYTES_MAX = 1_048_576

_REFERENCE = re.compile(r"\$\{(env|file|directory):(?:([^{}]*?):)?([^{}:]+)\}")


def has_reference(value: object) -> bool:
    return isinstance(value, str) and _REFERENCE.search(value) is not None


def references(text: str) -> list[tuple[str, str, str]]:
    """All that a text refers to, each by provider, path and key; a variable has no path."""
    return [(match[1], match[2] or "", match[3]) for match in _REFERENCE.finditer(text)]


def resolved(settings: Mapping[str, object]) -> dict[str, Any]:
    """A client's settings with what they refer to. OptionError, which names the option and the place, where it is not there."""
    return {
        name: resolved_text(f"kafka.{name.replace('_', '.')}", value) if isinstance(value, str) else value
        for name, value in settings.items()
    }


def resolved_text(option: str, text: str) -> str:
    """One value with what it refers to. OptionError names the option as it is given here."""
    if "${" not in text:
        return text
    return _REFERENCE.sub(lambda match: _value(option, match[1], match[2] or "", match[3]), text)


def _value(option: str, provider: str, path: str, key: str) -> str:
    if provider == "env":
        value = os.environ.get(key)
        if value is None:
            raise OptionError(f"{option} refers to the variable {key}, which is not set in this process")
        return value
    if not path:
        raise OptionError(f"{option} refers to a {provider} without a path: expected ${{{provider}:PATH:{key}}}")
    if provider == "directory":
        # A name, and no way out of the directory.
        return _read(option, Path(path) / Path(key).name).decode("utf-8", "replace").rstrip("\n")
    # Only for those who refer to such a file.
    from tidelog.storage.properties import parse_properties  # noqa: PLC0415

    value = parse_properties(_read(option, Path(path))).get(key)
    if value is None:
        raise OptionError(f"{option} refers to the key {key} of {path}, which is not there")
    return value


def _read(option: str, path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise OptionError(f"{option} refers to {path}, which cannot be read here: {error.strerror or error}") from None
    if len(content) > FILE_BYTES_MAX:
        raise OptionError(f"{option} refers to {path}, which has more than {FILE_BYTES_MAX} bytes")
    return content
