"""What the configuration comes to for one listener: `listener.name.<listener>.<key>` goes before `<key>`.

settings = ListenerSettings(config, "CLIENTS")
settings[SSL_KEYSTORE_LOCATION]                      listener.name.clients.ssl.keystore.location, else ssl.keystore.location
settings.of_mechanism("SCRAM-SHA-256", SASL_JAAS_CONFIG)
                                                     listener.name.clients.scram-sha-256.sasl.jaas.config, else the two above
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar, cast

from tidelog.model.config import ConfigKey

T = TypeVar("T")

LISTENER_PREFIX = "listener.name."


class ListenerSettings:
    """The settings of one listener. Values are those of `given`, typed; what nobody has set has its default."""

    __slots__ = ("_given", "_prefix", "listener_name")

    def __init__(self, given: Mapping[str, object], listener_name: str) -> None:
        """`given` holds what was set, by the whole name of each key (`ConfigValues.given`)."""
        self.listener_name = listener_name
        self._given = given
        self._prefix = f"{LISTENER_PREFIX}{listener_name.lower()}."

    def __getitem__(self, key: ConfigKey[T]) -> T:
        own = self._prefix + key.name
        return cast("T", self._given[own] if own in self._given else self._given.get(key.name, key.default))

    def is_own(self, key: ConfigKey[T]) -> bool:
        """Whether this listener has a value of its own, with its prefix."""
        return self._prefix + key.name in self._given

    def of_mechanism(self, mechanism: str, key: ConfigKey[T]) -> T:
        """The value for one SASL mechanism on this listener."""
        own = f"{self._prefix}{mechanism.lower()}.{key.name}"
        return cast("T", self._given[own]) if own in self._given else self[key]

    def only_of_mechanism(self, mechanism: str, key: ConfigKey[T]) -> T:
        """The value that was set for one SASL mechanism on this very listener; the default where none was."""
        return cast("T", self._given.get(f"{self._prefix}{mechanism.lower()}.{key.name}", key.default))


def without_listener(name: str) -> str:
    """The key that a name with a listener's prefix sets for a single listener; any other name as it is."""
    return name.removeprefix(LISTENER_PREFIX).partition(".")[2] if name.startswith(LISTENER_PREFIX) else name
