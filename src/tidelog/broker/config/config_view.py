"""What a broker's configuration comes to, and where each value is from.

    dynamic, for this broker             ConfigRecords of resource type BROKER with the node's id
    dynamic, for all brokers             the same with no name
    static                               what the process was started with
    default                              the table of keys

The first of these layers that has a key decides. A topic's key falls back to the broker's key that is its synonym, and some of
the broker's keys are one setting in several units (`log.retention.ms`, `.minutes`, `.hours`): then the finest that is set counts,
in whichever layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct

from tidelog.broker.config.server_properties import listener_key
from tidelog.controller.cluster_view import BROKER_RESOURCE, CLUSTER_DEFAULT
from tidelog.controller.image import ClusterImage, ConfigResource
from tidelog.controller.image_delta import TOPIC_RESOURCE
from tidelog.model.broker_config import BROKER_ID, NODE_ID
from tidelog.model.config import ConfigError, ConfigKey, ConfigKeys, ConfigSource, ConfigValues, UpdateMode
from tidelog.model.ids import NodeId, TopicName
from tidelog.model.throttle_config import SHOWN_WHEN_SET
from tidelog.model.tls_config import STORE_NAMES
from tidelog.model.topic_config import TOPIC_KEYS
from tidelog.model.unused_config import unused_keys
from tidelog.wire.messages.configs import DescribeConfigsSynonym

_MINUTE_MS = 60 * 1000
_HOUR_MS = 60 * _MINUTE_MS

# One setting under several names, the one that decides first, each with how many of the first one's unit it counts in.
_UNITS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "log.retention.ms": (
        ("log.retention.ms", 1),
        ("log.retention.minutes", _MINUTE_MS),
        ("log.retention.hours", _HOUR_MS),
    ),
    "log.roll.ms": (("log.roll.ms", 1), ("log.roll.hours", _HOUR_MS)),
    "log.roll.jitter.ms": (("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", _HOUR_MS)),
    "log.flush.interval.ms": (("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)),
}
# The scheduler's interval is a setting of its own; it stands in for the other one, but not the other way round.
_NAMES: Mapping[str, tuple[str, ...]] = {
    name: tuple(each for each, _ in units)
    for units in _UNITS.values()
    for name, _ in units
    if name != "log.flush.scheduler.interval.ms"
}
# Keys that hold nothing unless somebody sets them. What the table says instead is for the code that reads them, not for people.
_WITHOUT_DEFAULT = frozenset(
    {
        "advertised.listeners",
        "broker.rack",
        "controller.listener.names",
        "inter.broker.listener.name",
        "log.dirs",
        "log.flush.interval.ms",
        "log.retention.minutes",
        "log.retention.ms",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "metadata.log.dir",
        "node.id",
        "replica.selector.class",
        *SHOWN_WHEN_SET,
    }
)


def value_text(key: ConfigKey[object] | None, value: object) -> str | None:
    """A value as text; None where there is none."""
    if value is None:
        return None
    return str(value) if key is None else key.format(value)


def normalised(key: ConfigKey[object], text: str) -> str:
    """A value in the form that the key itself would write; as it is where another release has allowed what this one does not."""
    try:
        return key.format(key.parse(text))
    except ConfigError:
        return text


class BrokerConfigView(Struct, frozen=True):
    """One broker's configuration, layer by layer, as text."""

    table: ConfigKeys
    dynamic_broker: Mapping[str, str]
    dynamic_default: Mapping[str, str]
    static: Mapping[str, str]
    hidden: frozenset[str] = frozenset()
    """Names whose static values are not to be told, whatever the keys are."""

    @classmethod
    def of(cls, static: ConfigValues, image: ClusterImage, node_id: NodeId) -> BrokerConfigView:
        table = static.table
        given = {name: value_text(table.get(name), value) for name, value in static.given.items()}
        # Two names of one number, of which most nodes are told one.
        given[NODE_ID.name] = given[BROKER_ID.name] = str(node_id)
        return cls(
            table=table,
            dynamic_broker=image.config_of(ConfigResource(BROKER_RESOURCE, str(node_id))),
            dynamic_default=image.config_of(CLUSTER_DEFAULT),
            static={name: text for name, text in given.items() if text is not None},
            hidden=static.hidden,
        )

    def key(self, name: str) -> ConfigKey[object] | None:
        """The key of a name, whether it acts or not; None where nobody knows it."""
        key = self.table.get(name) or listener_key(name)
        if key is None and name in unused_keys():
            return unused_keys()[name].key
        return listener_key(name) if key is None else key

    def names(self) -> set[str]:
        """The keys to show: all that are set, and of those that are not, all that are not internal."""
        is_set = self.dynamic_broker.keys() | self.dynamic_default.keys() | self.static.keys()
        keys = (*self.table.values(), *(unused.key for unused in unused_keys().values()))
        return is_set | {key.name for key in keys if not key.is_internal and key.name not in SHOWN_WHEN_SET}

    def default(self, name: str) -> str | None:
        key = self.key(name)
        return None if key is None or name in _WITHOUT_DEFAULT else value_text(key, key.default)

    def value(self, name: str) -> str | None:
        """What a key of the broker holds."""
        for layer in (self.dynamic_broker, self.dynamic_default, self.static):
            if name in layer:
                return layer[name]
        return self.default(name)

    def is_sensitive(self, name: str) -> bool:
        """Whether a value is not to be told. Nobody knows what the keys hold that nobody knows: as in Kafka, they are."""
        key = self.key(name)
        return key is None or key.is_sensitive or name in self.hidden

    def synonyms(self, name: str) -> list[DescribeConfigsSynonym]:
        """Every place that has a value for a key, the one that counts first.

        As in Kafka the list starts with the key's own name: where a setting is given in another unit alone, it is empty.
        """
        found = list(self._synonyms(_NAMES.get(name, (name,))))
        starts = [index for index, synonym in enumerate(found) if synonym.name == name]
        return found[starts[0] :] if starts else []

    def _synonyms(self, names: tuple[str, ...]) -> Iterator[DescribeConfigsSynonym]:
        layers = (
            (ConfigSource.DYNAMIC_BROKER, self.dynamic_broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, self.dynamic_default),
            (ConfigSource.STATIC_BROKER, self.static),
        )
        for source, layer in layers:
            for name in names:
                if name in layer:
                    yield self._synonym(name, layer[name], source)
        for name in names:
            default = self.default(name)
            if default is not None:
                yield self._synonym(name, default, ConfigSource.DEFAULT)

    def _synonym(self, name: str, value: str, source: ConfigSource) -> DescribeConfigsSynonym:
        shown = None if self.is_sensitive(name) else value
        return DescribeConfigsSynonym(name=name, value=shown, source=source)

    def topic_default(self, key: ConfigKey[object]) -> str | None:
        """What this broker sets a topic's key to where the topic says nothing; None where nobody has set it."""
        return _topic_default(key, (self.dynamic_broker, self.dynamic_default, self.static))


def effective_config(static: ConfigValues, view: BrokerConfigView) -> ConfigValues:
    """What a node goes by: what it was started with, and what may be changed and has been changed since."""
    given = dict(static.given)
    for layer, modes in (
        (view.dynamic_default, {UpdateMode.CLUSTER_WIDE}),
        (view.dynamic_broker, {UpdateMode.CLUSTER_WIDE, UpdateMode.PER_BROKER}),
    ):
        for name, text in layer.items():
            key = view.table.get(name) or listener_key(name)
            # Another release may have stored what this one does not know or allow. Stores change for one listener at a time.
            if key is not None and key.update_mode in modes and name not in STORE_NAMES and _is_allowed(key, text):
                given[name] = key.parse(text)
    return ConfigValues(static.table, given)


def static_topic_defaults(static: ConfigValues) -> dict[str, str]:
    """The values of topics' keys that a node's own configuration gives: what a controller goes by."""
    table = static.table
    given = {name: value_text(table.get(name), value) for name, value in static.given.items()}
    layers = ({name: text for name, text in given.items() if text is not None},)
    found = {name: _topic_default(key, layers) for name, key in TOPIC_KEYS.items()}
    return {name: text for name, text in found.items() if text is not None}


def topic_values(view: BrokerConfigView, image: ClusterImage, topic: TopicName) -> ConfigValues:
    """What every key of a topic comes to on this broker. Values that this release does not allow count as not set."""
    own = image.config_of(ConfigResource(TOPIC_RESOURCE, topic))
    given: dict[str, object] = {}
    for name, key in TOPIC_KEYS.items():
        text = own.get(name)
        if text is None or not _is_allowed(key, text):
            text = view.topic_default(key)
        if text is not None:
            given[name] = key.parse(text)
    return ConfigValues(TOPIC_KEYS, given)


def _topic_default(key: ConfigKey[object], layers: tuple[Mapping[str, str], ...]) -> str | None:
    synonym = key.synonym
    if synonym is None:
        return None
    for name, unit in _UNITS.get(synonym, ((synonym, 1),)):
        for layer in layers:
            text = layer.get(name)
            if text is None:
                continue
            converted = text if name == synonym else _in_unit(text, unit)
            if converted is not None and _is_allowed(key, converted):
                return normalised(key, converted)
    return None


def _in_unit(text: str, unit: int) -> str | None:
    try:
        number = int(text)
    except ValueError:
        return None
    # Every negative number stands for "no limit", which has one spelling.
    return str(number * unit) if number >= 0 else "-1"


def _is_allowed(key: ConfigKey[object], text: str) -> bool:
    try:
        key.parse(text)
    except ConfigError:
        return False
    return True
