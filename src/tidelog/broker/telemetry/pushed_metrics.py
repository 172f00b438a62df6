"""The last values of what clients have pushed, to be shown with the node's own metrics. Bounded, whatever clients send.

A series is one metric of one client with one set of attributes. Beyond the limits nothing new is taken, and that is counted; what
is known already goes on. The series of a client are gone with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.broker.telemetry.client_instances import ClientInstance
from tidelog.broker.telemetry.otlp_metrics import Attributes, Change, Point
from tidelog.model.ids import uuid_to_text
from tidelog.model.metrics import Kind, Reading

LABELS = (
    "metric",
    "attributes",
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "principal",
)

SERIES_MAX = 50_000
SERIES_PER_CLIENT_MAX = 1_000
NAME_CHARACTERS_MAX = 200
ATTRIBUTES_CHARACTERS_MAX = 400
_CLIENT_CHARACTERS_MAX = 200


class _Series(NamedTuple):
    kind: Kind
    name: str
    attributes: str


class _Client:
    __slots__ = ("labels", "values")

    def __init__(self, instance: ClientInstance) -> None:
        known = instance.identity
        self.labels = (
            uuid_to_text(instance.id),
            (known.client_id or "")[:_CLIENT_CHARACTERS_MAX],
            known.software_name[:_CLIENT_CHARACTERS_MAX],
            known.software_version[:_CLIENT_CHARACTERS_MAX],
            known.principal[:_CLIENT_CHARACTERS_MAX],
        )
        self.values: dict[_Series, float] = {}


class PushedMetrics:
    """Of one node."""

    def __init__(self, *, series_max: int = SERIES_MAX, per_client_max: int = SERIES_PER_CLIENT_MAX) -> None:
        self._series_max = series_max
        self._per_client_max = per_client_max
        self._clients: dict[bytes, _Client] = {}
        self.series_count = 0
        self.dropped = 0
        """Points that were not taken."""

    def take_in(self, instance: ClientInstance, points: Iterable[Point]) -> None:
        """What a client says of itself now."""
        client = self._clients.get(instance.id)
        if client is None:
            client = self._clients[instance.id] = _Client(instance)
        values = client.values
        for point in points:
            series = _series_of(point)
            before = None if series is None else values.get(series)
            if series is None or (before is None and not self._has_room(values)):
                self.dropped += 1
                continue
            if before is None:
                self.series_count += 1
            is_added = point.change in {Change.ADDED, Change.MOVED}
            values[series] = (before or 0) + point.value if is_added else point.value

    def _has_room(self, values: dict[_Series, float]) -> bool:
        return len(values) < self._per_client_max and self.series_count < self._series_max

    def forget(self, instance_id: bytes) -> None:
        client = self._clients.pop(instance_id, None)
        if client is not None:
            self.series_count -= len(client.values)

    def readings(self, kind: Kind) -> Iterable[Reading]:
        """Every series of a kind, labelled as in `LABELS`."""
        return [
            ((series.name, series.attributes, *client.labels), value)
            for client in self._clients.values()
            for series, value in client.values.items()
            if series.kind is kind
        ]


def _series_of(point: Point) -> _Series | None:
    """None for a point whose name or attributes are longer than is shown."""
    # Looked at before they are joined: points share their attributes, and each of thousands would copy a megabyte.
    if any(len(key) + len(value) > ATTRIBUTES_CHARACTERS_MAX for key, value in point.attributes):
        return None
    attributes = _joined(point.attributes)
    if not point.name or len(point.name) > NAME_CHARACTERS_MAX or len(attributes) > ATTRIBUTES_CHARACTERS_MAX:
        return None
    is_growing = point.change in {Change.TOTAL, Change.ADDED}
    return _Series(Kind.COUNTER if is_growing else Kind.GAUGE, point.name, attributes)


def _joined(attributes: Attributes) -> str:
    return ",".join(f"{key}={value}" for key, value in attributes)
