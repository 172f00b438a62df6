"""The configuration keys of values that are kept elsewhere: who looks them up, and who may.

`config.providers.<alias>.class` and `config.providers.<alias>.param.<name>` have no names of their own to declare. Kafka takes
the second key as a property of the JVM.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKeys, list_key

CONFIG_PROVIDERS = list_key(
    "config.providers",
    (),
    doc="The aliases under which values of the form `${alias:path:key}` are looked up, when the node starts.",
)
PROVIDER_KEYS = ConfigKeys([CONFIG_PROVIDERS])

PROVIDER_PREFIX = "config.providers."
AUTOMATIC_CONFIG_PROVIDERS = "org.apache.kafka.automatic.config.providers"
"""The classes that may be named, separated by commas; all of them where it is not set."""


def is_about_providers(name: str) -> bool:
    """Whether a name belongs to the providers, and is none of the keys of a node."""
    return name.startswith(PROVIDER_PREFIX) or name == AUTOMATIC_CONFIG_PROVIDERS
