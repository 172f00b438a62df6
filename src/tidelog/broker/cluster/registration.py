"""A broker's life in the eyes of the controller: it registers, reports, is let in, and says when it leaves.

new -> registered       BrokerRegistration; the answer is the broker's epoch
    -> serving          a heartbeat after it has caught up with its own registration is answered `is_fenced=False`
    -> leaving          heartbeats with want_shut_down until the controller lets it go

A broker that leaves is let go when all others have said that they know who leads instead, so those say it at once. So does one
that has lost a log directory: until the controller knows, nobody else leads what lay there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

from tidelog.controller.image import ClusterImage, Endpoint
from tidelog.controller.metadata_service import listeners, supported_features
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import BrokerEpoch, DirectoryId, NodeId, random_uuid
from tidelog.model.pending import Pending
from tidelog.model.timers import Timer, Timers
from tidelog.wire.messages.broker_lifecycle import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)
from tidelog.wire.schema import Request, Response

logger = logging.getLogger(__name__)

# Trying again while there is no active controller; with a quorum of one that is over within milliseconds.
RETRY_MS = 20
# Trying again where the controller has said no.
REFUSED_RETRY_MS = 100

Ask = Callable[[Request], Pending[Response]]


class Registration:
    """Registers one broker and keeps it registered. `serving` completes when the controller has let it in."""

    def __init__(
        self,
        ask: Ask,
        timers: Timers,
        random: Random,
        *,
        node_id: NodeId,
        cluster_id: str,
        heartbeat_interval_ms: int,
        metadata_offset: Callable[[], int],
        offline_directories: Callable[[], list[DirectoryId]],
    ) -> None:
        self._ask = ask
        self._timers = timers
        self._node_id = node_id
        self._cluster_id = cluster_id
        self._interval_ms = heartbeat_interval_ms
        self._metadata_offset = metadata_offset
        self._offline_directories = offline_directories
        self._incarnation_id = random_uuid(random)
        self._timer: Timer | None = None
        self._is_stopped = False
        self._request: BrokerRegistrationRequest | None = None
        self._refusal = ErrorCode.NONE
        self.epoch = BrokerEpoch(-1)
        self.serving: Pending[None] = Pending()
        self._leaving: Pending[None] | None = None
        # The others that leave, as far as this broker has heard; and whether there is news since the last heartbeat.
        self._others_leaving: frozenset[NodeId] = frozenset()
        self._has_news = False
        self._is_telling_directories = False

    def begin(
        self,
        endpoints: list[Endpoint],
        directories: list[DirectoryId],
        *,
        rack: str | None,
        previous_epoch: BrokerEpoch | None,
    ) -> None:
        """Register, and report from then on."""
        self._request = BrokerRegistrationRequest(
            broker_id=self._node_id,
            cluster_id=self._cluster_id,
            incarnation_id=self._incarnation_id,
            listeners=listeners(endpoints),
            features=supported_features(),
            rack=rack,
            log_dirs=list(directories),
            previous_broker_epoch=-1 if previous_epoch is None else previous_epoch,
        )
        self._register()

    def leave(self) -> Pending[None]:
        """Say that the broker wants to stop; complete when it may."""
        self._leaving = Pending()
        self._cancel()
        self._beat()
        return self._leaving

    def follow(self, image: ClusterImage) -> None:
        """The cluster is like this by now: whoever has begun to leave is not to wait for a whole heartbeat interval."""
        leaving = frozenset(
            broker.node_id
            for broker in image.brokers.values()
            if broker.in_controlled_shutdown and not broker.fenced and broker.node_id != self._node_id
        )
        has_news = not leaving <= self._others_leaving
        self._others_leaving = leaving
        if has_news:
            self.report()
        self._tell_directories(image)

    def _tell_directories(self, image: ClusterImage) -> None:
        """The level was raised to one that has directories in registrations: the same life registers again, with them."""
        known = image.brokers.get(self._node_id)
        is_lacking = known is not None and known.epoch == self.epoch and not known.log_directories
        if is_lacking and image.metadata_version.has_directories:
            if not self._is_telling_directories:
                self._is_telling_directories = True
                self._register()
        else:
            self._is_telling_directories = False

    def report(self) -> None:
        """There is news that must not wait for a whole heartbeat interval, such as a log directory that is offline."""
        self._has_news = True
        if self._timer is not None and self.serving.is_complete:
            self._later(0, self._beat)

    def stop(self) -> None:
        """Report no more."""
        self._is_stopped = True
        self._cancel()

    def _register(self) -> None:
        if self._is_stopped or self._request is None:
            return
        self._ask(self._request).then(self._registered)

    def _registered(self, answer: Response) -> None:
        assert isinstance(answer, BrokerRegistrationResponse)
        if answer.error_code == ErrorCode.NONE:
            self.epoch = BrokerEpoch(answer.broker_epoch)
            self._beat()
            return
        error = ErrorCode.of(answer.error_code)
        is_passing = error in {ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT}
        if not is_passing and error is not self._refusal:
            logger.warning("the controller does not register this broker: %s", error.message)
        self._refusal = error
        # A former life of this broker, whose machine lost its power, may be waited for until its session is over.
        self._later(RETRY_MS if is_passing else REFUSED_RETRY_MS, self._register)

    def _beat(self) -> None:
        if self._is_stopped:
            return
        self._has_news = False
        heartbeat = BrokerHeartbeatRequest(
            broker_id=self._node_id,
            broker_epoch=self.epoch,
            current_metadata_offset=self._metadata_offset(),
            want_fence=False,
            want_shut_down=self._leaving is not None,
            offline_log_dirs=list(self._offline_directories()),
        )
        self._ask(heartbeat).then(self._answered)

    def _answered(self, answer: Response) -> None:
        assert isinstance(answer, BrokerHeartbeatResponse)
        error = ErrorCode.of(answer.error_code)
        if error is ErrorCode.STALE_BROKER_EPOCH:
            # Somebody has registered with this id since, or the controller has forgotten us: both are settled by registering.
            self._later(RETRY_MS, self._register)
            return
        if self._leaving is not None:
            if error is ErrorCode.NONE and answer.should_shut_down:
                self._leaving.complete(None)
                return
            self._later(RETRY_MS, self._beat)
            return
        if error is ErrorCode.NONE and not answer.is_fenced:
            self.serving.complete(None)
            self._later(0 if self._has_news else self._interval_ms, self._beat)
            return
        self._later(RETRY_MS, self._beat)

    def _later(self, delay_ms: int, call: Callable[[], None]) -> None:
        self._cancel()
        if not self._is_stopped:
            self._timer = self._timers.after(delay_ms, call)

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
