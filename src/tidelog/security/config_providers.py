"""Values that a configuration names instead of holding them: `${alias:path:key}` and `${alias:key}`, as in Kafka (KIP-297).

    config.providers=file
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.file.param.allowed.paths=/etc/tidelog
    delegation.token.secret.key=${file:/etc/tidelog/secrets.properties:token-secret}

Kafka's three providers are here: a properties file, the environment, a directory of files. They are looked up once, when the node
starts. An alias that nobody has declared, and a key that is not there, leave the text as it is. A value that was found is never
said: a ConfigError names the key and the place alone.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

from tidelog.model.config import ConfigError, Password
from tidelog.model.provider_config import (
    AUTOMATIC_CONFIG_PROVIDERS,
    CONFIG_PROVIDERS,
    PROVIDER_PREFIX,
    is_about_providers,
)

# A secret is a line, a key store in PEM a few pages: what is larger was named by mistake.
FILE_BYTES_MAX = 1 << 20
# Of one value after all that it names has been put in: a line that names a file many times must not fill the memory.
VALUE_CHARACTERS_MAX = 1 << 20

_CLASSES = "org.apache.kafka.common.config.provider."
_VARIABLE = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")

ParseProperties = Callable[[str], Mapping[str, str]]


class Provider(Protocol):
    def get(self, path: str) -> Mapping[str, str]:
        """What there is at a path; nothing where that may not be looked at. ConfigError where it cannot be read."""
        ...


class FileConfigProvider:
    """The keys of a properties file, in UTF-8."""

    def __init__(self, parameters: Mapping[str, str], parse: ParseProperties) -> None:
        self._allowed = AllowedPaths(parameters.get("allowed.paths"))
        self._parse = parse
        self._read: dict[str, Mapping[str, str]] = {}

    def get(self, path: str) -> Mapping[str, str]:
        allowed = self._allowed.path(path)
        if allowed is None:
            return {}
        if allowed not in self._read:
            problem = f"Could not read properties from file {path}"
            self._read[allowed] = self._parse(_read_text(allowed, problem))
        return self._read[allowed]


class EnvVarConfigProvider:
    """The variables of the process's environment whose names match a pattern, which is all of them by default."""

    def __init__(self, parameters: Mapping[str, str], environment: Mapping[str, str]) -> None:
        try:
            pattern = re.compile(parameters.get("allowlist.pattern", ".*"))
        except re.error as error:
            raise ConfigError(f"allowlist.pattern is no regular expression: {error.msg}") from None
        self._variables = {name: value for name, value in environment.items() if pattern.fullmatch(name)}

    def get(self, path: str) -> Mapping[str, str]:
        if path:
            raise ConfigError(f"Path is not supported for EnvVarConfigProvider, invalid value '{path}'")
        return self._variables


class DirectoryConfigProvider:
    """The files of a directory: the name of each is the key, all that is in it the value."""

    def __init__(self, parameters: Mapping[str, str]) -> None:
        self._allowed = AllowedPaths(parameters.get("allowed.paths"))

    def get(self, path: str) -> Mapping[str, str]:
        allowed = self._allowed.path(path)
        return _Files(Path(allowed)) if allowed is not None and Path(allowed).is_dir() else {}


class _Files(Mapping[str, str]):
    """The regular files right in a directory, each read when it is asked for."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def __getitem__(self, name: str) -> str:
        path = self._directory / name
        # A name is that of a file in this directory, and not a way out of it.
        if name in {"", ".", ".."} or "/" in name or not path.is_file():
            raise KeyError(name)
        return _read_text(str(path), f"Could not read file {path} for property {name}")

    def __iter__(self) -> Iterator[str]:
        return (path.name for path in self._directory.iterdir() if path.is_file())

    def __len__(self) -> int:
        return sum(1 for _ in self)


class AllowedPaths:
    """Where files may be read, and everywhere where nothing was said. Links are followed, as in Kafka."""

    def __init__(self, text: str | None) -> None:
        self._roots: list[str] | None = None
        if not text:
            return
        self._roots = []
        for each in text.split(","):
            root = os.path.normpath(each)
            if not Path(root).is_absolute():
                raise ConfigError(f"Path {root} is not absolute")
            if not Path(root).exists():
                raise ConfigError(f"Path {root} does not exist")
            self._roots.append(root)

    def path(self, text: str) -> str | None:
        """The path to read; None for none, and for one that is not allowed."""
        if not text or self._roots is None:
            return text or None
        normal = os.path.normpath(text)
        return (
            normal if any(normal == root or normal.startswith(root.rstrip("/") + "/") for root in self._roots) else None
        )


def resolve(given: Mapping[str, str], environment: Mapping[str, str], parse: ParseProperties) -> dict[str, str]:
    """A configuration with what its values name in the place of the names. Values that have changed are `Password`s."""
    providers = _providers(given, environment, parse)
    if not providers:
        return dict(given)
    return {
        name: text if is_about_providers(name) or name == CONFIG_PROVIDERS.name else _resolved(name, text, providers)
        for name, text in given.items()
    }


def _resolved(name: str, text: str, providers: Mapping[str, Provider]) -> str:
    if "${" not in text:
        return text
    parts: list[str] = []
    position = length = 0
    is_changed = False
    for match in _VARIABLE.finditer(text):
        provider = providers.get(match[1])
        found = None if provider is None else _look_up(provider, match[3] or "", match[4], name)
        if found is None:
            continue
        parts += (text[position : match.start()], found)
        position = match.end()
        is_changed = True
        length += len(parts[-2]) + len(found)
        if length > VALUE_CHARACTERS_MAX:
            raise ConfigError(f"{name} cannot be set: what it names is longer than {VALUE_CHARACTERS_MAX} characters")
    return Password("".join((*parts, text[position:]))) if is_changed else text


def _look_up(provider: Provider, path: str, key: str, name: str) -> str | None:
    try:
        return provider.get(path).get(key)
    except ConfigError as error:
        raise ConfigError(f"{name} cannot be set: {error}") from None


def _providers(given: Mapping[str, str], environment: Mapping[str, str], parse: ParseProperties) -> dict[str, Provider]:
    providers: dict[str, Provider] = {}
    for alias in CONFIG_PROVIDERS.parse(given.get(CONFIG_PROVIDERS.name, "")):
        class_name = given.get(f"{PROVIDER_PREFIX}{alias}.class")
        if class_name is None:
            # As in Kafka, which leaves what such an alias stands for as it is.
            continue
        class_name = class_name.strip()
        _check_allowed(class_name, given.get(AUTOMATIC_CONFIG_PROVIDERS))
        prefix = f"{PROVIDER_PREFIX}{alias}.param."
        parameters = {name.removeprefix(prefix): text for name, text in given.items() if name.startswith(prefix)}
        try:
            providers[alias] = _provider(class_name, parameters, environment, parse)
        except ConfigError as error:
            raise ConfigError(f"config.providers names {alias}, which cannot be used: {error}") from None
    return providers


def _provider(
    class_name: str, parameters: Mapping[str, str], environment: Mapping[str, str], parse: ParseProperties
) -> Provider:
    match class_name.removeprefix(_CLASSES):
        case "FileConfigProvider":
            return FileConfigProvider(parameters, parse)
        case "EnvVarConfigProvider":
            return EnvVarConfigProvider(parameters, environment)
        case "DirectoryConfigProvider":
            return DirectoryConfigProvider(parameters)
    raise ConfigError(f"{class_name} is a Java class, which does not run here")


def _check_allowed(class_name: str, allowed: str | None) -> None:
    if allowed is not None and class_name not in {each.strip() for each in allowed.split(",")}:
        raise ConfigError(f"{class_name} is not allowed. Update '{AUTOMATIC_CONFIG_PROVIDERS}' to allow {class_name}")


def _read_text(path: str, problem: str) -> str:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a path as the configuration has it
            content = file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no path"
        raise ConfigError(f"{problem}: {reason}") from None
    if len(content) > FILE_BYTES_MAX:
        raise ConfigError(f"{problem}: it is larger than {FILE_BYTES_MAX} bytes")
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{problem}: it is not UTF-8") from None
