"""Brokers whose connection has just broken: answers that name one as a leader are held back until the cluster has decided.

When a broker dies, its clients ask another one for the metadata within a fraction of a millisecond, well before the controller
has found new leaders. A client that hears of the dead leader once more may take its time until it asks again: librdkafka takes a
second. This node has noticed the death as well, by a connection of its own, so it holds the answer back until it has news.

    a connection breaks         the broker is in doubt; answers that name it as a leader are held back
    a connection comes about    it is not
    the metadata fences it      it is not any more; if it led until then, it is named among the brokers for a moment longer
    `HOLD_MS` later             it is not: answers tell what is known

It is named for a moment longer because librdkafka gives up a broker that an answer leaves out, and with it, if the same answer
names a new leader of its partitions, what it has just learned of that one; it then asks again a second later. A broker that stops
cleanly has handed over before it is fenced, and is left out from then on, as in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial

from tidelog.controller.cluster_view import leads_any
from tidelog.controller.image import ClusterImage
from tidelog.model.ids import NodeId
from tidelog.model.pending import Pending
from tidelog.model.timers import Timer, Timers
from tidelog.net.node_connection import Event

# An election takes less, also where it has to wait for one of the controllers.
HOLD_MS = 1_000
NAMED_MS = 1_000


class DoubtedBrokers:
    """One for each broker. `stop` answers all that wait."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._image = ClusterImage()
        self._doubts: dict[NodeId, Timer] = {}
        self._waiting: dict[Pending[None], frozenset[NodeId]] = {}
        self.fenced: dict[NodeId, Timer] = {}
        """Those that were fenced a moment ago."""

    def __bool__(self) -> bool:
        return bool(self._doubts)

    def connection_of(self, broker: NodeId) -> Callable[[Event], None]:
        """Takes what happens to a connection to a broker."""

        def happened(event: Event) -> None:
            if event is Event.BROKEN:
                if broker not in self._doubts:
                    self._doubts[broker] = self._timers.after(HOLD_MS, lambda: self._clear(broker))
            elif event is Event.CONNECTED:
                self._clear(broker)

        return happened

    def follow(self, image: ClusterImage) -> None:
        """The metadata has changed."""
        former, self._image = self._image, image
        if image.brokers is former.brokers:
            return
        for node, broker in former.brokers.items():
            now = image.brokers.get(node)
            if now is None or (now.fenced and not broker.fenced):
                self._forget_fenced(node)
                if leads_any(former, node):
                    self.fenced[node] = self._timers.after(NAMED_MS, partial(self._forget_fenced, node))
            elif now.epoch != broker.epoch:
                self._forget_fenced(node)
            else:
                continue
            self._clear(node)

    def settled(self, leaders: Collection[NodeId]) -> Pending[None] | None:
        """Completes when none of these is in doubt; None where none is."""
        doubted = frozenset(leader for leader in leaders if leader in self._doubts)
        if not doubted:
            return None
        waiting: Pending[None] = Pending()
        self._waiting[waiting] = doubted
        return waiting

    def stop(self) -> None:
        for timer in (*self._doubts.values(), *self.fenced.values()):
            timer.cancel()
        self._doubts.clear()
        self.fenced.clear()
        waiting, self._waiting = self._waiting, {}
        for each in waiting:
            each.complete(None)

    def _forget_fenced(self, broker: NodeId) -> None:
        timer = self.fenced.pop(broker, None)
        if timer is not None:
            timer.cancel()

    def _clear(self, broker: NodeId) -> None:
        timer = self._doubts.pop(broker, None)
        if timer is None:
            return
        timer.cancel()
        done = [each for each, doubted in self._waiting.items() if not any(one in self._doubts for one in doubted)]
        for each in done:
            del self._waiting[each]
        for each in done:
            each.complete(None)
