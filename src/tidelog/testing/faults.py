"""Requests that fail, wait or are cut off on purpose, between a listener and its handlers.

    fault = faults.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", times=2)      answered with the error, and nothing is done
    faults.fail("Produce", error="REQUEST_TIMED_OUT", after=True)                done, but answered with the error
    faults.disconnect("Fetch", times=1)                                          the connection ends instead of an answer
    faults.delay("Fetch", ms=300)                                                answered so much later
    fault.met; fault.lift()                                                      how many requests it has met; it ends

Every fault that is in force looks at each request of a client, in the order in which they were made; the first that is about the
request decides, and is used up after `times`. Answers keep their order within a connection, so a request that is delayed holds up
those behind it. What other nodes ask (a follower's Fetch, a Vote) passes by: for that there is `Network`.

A Fetch has errors of its session at the top and those of a partition beside that. A session may ask for partitions without naming
them, so one that is to be told of a partition is first told that the session is not known, which costs the client one more
request, and counts as none.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Protocol, Self

from tidelog.broker.requests.caller import Caller
from tidelog.broker.requests.handling import HANDLERS, Interposer
from tidelog.model.config import did_you_mean
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Failed, Pending
from tidelog.testing.errors import ClusterError
from tidelog.wire.apis import ApiKey, api
from tidelog.wire.error_answers import error_answer
from tidelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData

# A test that waits longer has hung; Kafka's own clients give up after two minutes.
DELAY_MS_MAX = 600_000

_FETCH_ERRORS_OF_SESSIONS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    }
)
# `session_epoch` of a request that names all of its partitions: the first of a session, and one without.
_WHOLE = frozenset({0, -1})
_SAID = "a fault that the test asked for"


class Interposable(Protocol):
    """Where requests pass: a node's listeners."""

    def interpose(self, interposer: Interposer | None) -> None: ...


_Deed = Callable[[Callable[[Caller], Any], Any, Caller], Any]
"""What a fault does to a request: it is given what would handle it, the request, and who asks."""


class Fault:
    """One fault. In a `with` block it is lifted at the end."""

    def __init__(
        self,
        faults: Faults,
        key: int,
        deed: _Deed,
        *,
        times: int | None,
        node: int | None,
        topic: str | None,
        client_id: str | None,
        what: str,
    ) -> None:
        self._faults = faults
        self._key = key
        self._deed = deed
        self._left = times
        self._node = node
        self._topic = topic
        self._client_id = client_id
        self._what = what
        self._changed = threading.Condition()
        self.met = 0
        """How many requests it has met."""

    def __repr__(self) -> str:
        left = "" if self._left is None else f", {self._left} to go"
        return f"<{self._what}: met {self.met}{left}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.lift()

    def lift(self) -> None:
        """It ends. What it holds back is still answered in its time."""
        self._faults.drop(self)

    def wait_until_met(self, times: int = 1, timeout_s: float = 10.0) -> None:
        """Return once it has met so many requests. ClusterError if that takes too long."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.met >= times, timeout_s):
                raise ClusterError(f"{self._what}: it has met {self.met} of {times} requests within {timeout_s:g} s")

    def is_about(self, node_id: int, request: Any, caller: Caller, names: Callable[[bytes], str | None]) -> bool:
        """Whether this fault decides about a request. `names` tells a topic's name by its id."""
        return bool(
            request.api_key == self._key
            and (self._left is None or self._left > 0)
            and (self._node is None or self._node == node_id)
            and (self._client_id is None or self._client_id == caller.client_id)
            and (self._topic is None or self._topic in _topics_of(request, names))
        )

    def meet(self, handle: Callable[[Caller], Any], request: Any, caller: Caller) -> Any:
        outcome = self._deed(handle, request, caller)
        if isinstance(outcome, _Prelude):
            return outcome.answer
        with self._changed:
            self.met += 1
            if self._left is not None:
                self._left -= 1
            self._changed.notify_all()
        return outcome


class _Prelude:
    """An answer that only makes way for the one that counts."""

    __slots__ = ("answer",)

    def __init__(self, answer: Any) -> None:
        self.answer = answer


class Faults:
    """Those of one cluster. Made and lifted by any thread, met on that of the nodes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Replaced as a whole: nodes read it while a test changes it.
        self._faults: tuple[Fault, ...] = ()
        self._nodes: dict[int, Interposable] = {}
        self._on_node_thread: Callable[[Callable[[], None]], None] | None = None
        self._names: Callable[[int], Callable[[bytes], str | None]] = lambda _node_id: lambda _topic_id: None

    def serve(
        self,
        on_node_thread: Callable[[Callable[[], None]], None] | None,
        names: Callable[[int], Callable[[bytes], str | None]],
    ) -> None:
        """How to do something on the nodes' thread, and how a node knows topics by their ids. None: the nodes are elsewhere."""
        self._on_node_thread = on_node_thread
        self._names = names

    def node_started(self, node_id: int, node: Interposable) -> None:
        """On the nodes' thread."""
        self._nodes[node_id] = node
        if self._faults:
            node.interpose(self._interposer(node_id))

    def node_ended(self, node_id: int) -> None:
        """On the nodes' thread."""
        self._nodes.pop(node_id, None)

    # --- what a test asks for ----------------------------------------------------------------------------------------------

    def fail(
        self,
        api_name: str,
        error: str | ErrorCode,
        *,
        times: int | None = 1,
        after: bool = False,
        **about: Any,
    ) -> Fault:
        code = _error_code(error)
        deed = _answer_after(code) if after else _answer_instead(code)
        done = " once it is done" if after else ""
        return self._add(api_name, deed, times, f"{api_name} fails with {code.name}{done}", **about)

    def disconnect(self, api_name: str, *, times: int | None = 1, after: bool = False, **about: Any) -> Fault:
        return self._add(api_name, _cut_off(after=after), times, f"{api_name} loses its connection", **about)

    def delay(self, api_name: str, ms: float, *, times: int | None = None, **about: Any) -> Fault:
        if not 0 < ms <= DELAY_MS_MAX:
            raise ClusterError(f"a request can be delayed by more than 0 and up to {DELAY_MS_MAX} ms, not by {ms!r}")
        return self._add(api_name, _answer_later(ms / 1000), times, f"{api_name} takes {ms:g} ms longer", **about)

    def drop(self, fault: Fault) -> None:
        with self._lock:
            self._faults = tuple(each for each in self._faults if each is not fault)
            if not self._faults:
                self._interpose()

    def lift_all(self) -> None:
        with self._lock:
            if self._faults:
                self._faults = ()
                self._interpose()

    def _add(
        self,
        api_name: str,
        deed: _Deed,
        times: int | None,
        what: str,
        *,
        node: int | None = None,
        topic: str | None = None,
        client_id: str | None = None,
    ) -> Fault:
        key = _api_key(api_name)
        if times is not None and (type(times) is not int or times < 1):
            raise ClusterError(f"times is a number from 1 on, or None for all requests, not {times!r}")
        with self._lock:
            if self._on_node_thread is None:
                raise ClusterError(
                    "faults are for nodes in the process of the test: these are processes of their own, "
                    "or the cluster does not run"
                )
            fault = Fault(self, key, deed, times=times, node=node, topic=topic, client_id=client_id, what=what)
            is_first = not self._faults
            self._faults = (*self._faults, fault)
            if is_first:
                self._interpose()
        return fault

    def _interpose(self) -> None:
        """In force, or gone, on return."""
        if self._on_node_thread is None:
            return

        def interpose() -> None:
            for node_id, node in self._nodes.items():
                node.interpose(self._interposer(node_id) if self._faults else None)

        self._on_node_thread(interpose)

    def _interposer(self, node_id: int) -> Interposer:
        def interposed(handler: Callable[[Any, Any, Any], Any], request: Any, caller: Caller, node: Any) -> Any:
            if not _is_of_a_node(request):
                names = self._names(node_id)
                for fault in self._faults:
                    if fault.is_about(node_id, request, caller, names):
                        return fault.meet(lambda asked: handler(request, asked, node), request, caller)
            return handler(request, caller, node)

        return interposed


# --- deeds -----------------------------------------------------------------------------------------------------------------


def _answer_instead(code: ErrorCode) -> _Deed:
    def answer(_handle: Callable[[Caller], Any], request: Any, caller: Caller) -> Any:
        # What this connection has produced before comes first.
        caller = caller.apart()
        return _answer(request, caller.api_version, code)

    return answer


def _answer_after(code: ErrorCode) -> _Deed:
    def answer(handle: Callable[[Caller], Any], request: Any, caller: Caller) -> Any:
        caller = caller.apart()
        version = caller.api_version
        done = handle(caller)
        if done is None:
            return None
        return _then(done, lambda _real: _unwrapped(_answer(request, version, code)))

    return answer


def _answer_later(delay_s: float) -> _Deed:
    def answer(handle: Callable[[Caller], Any], _request: Any, caller: Caller) -> Any:
        done = handle(caller.apart())
        if done is None:
            return None
        later: Pending[Any] = Pending()
        loop = asyncio.get_running_loop()

        def hold(real: Any) -> None:
            loop.call_later(delay_s, later.complete, real)

        if isinstance(done, Pending):
            done.then(hold)
        else:
            hold(done)
        return later

    return answer


def _cut_off(*, after: bool) -> _Deed:
    def cut(handle: Callable[[Caller], Any], _request: Any, caller: Caller) -> Any:
        caller = caller.apart()
        connection = caller.connection
        done = handle(caller) if after else None
        if isinstance(done, Pending):
            done.then(lambda _real: connection.abort())
        else:
            connection.abort()

    return cut


def _then(done: Any, change: Callable[[Any], Any]) -> Any:
    if not isinstance(done, Pending):
        return change(done)
    changed: Pending[Any] = Pending()
    done.then(lambda real: changed.complete(real if isinstance(real, Failed) else change(real)))
    return changed


def _unwrapped(answer: Any) -> Any:
    return answer.answer if isinstance(answer, _Prelude) else answer


def _answer(request: Any, version: int, code: ErrorCode) -> Any:
    """None where the request is never answered."""
    if request.api_key != ApiKey.FETCH or code in _FETCH_ERRORS_OF_SESSIONS:
        return error_answer(request, version, code, _SAID)
    if request.session_epoch not in _WHOLE and request.session_id:
        return _Prelude(error_answer(request, version, ErrorCode.FETCH_SESSION_ID_NOT_FOUND, _SAID))
    return FetchResponse(
        throttle_time_ms=0,
        error_code=ErrorCode.NONE,
        responses=[
            FetchableTopicResponse(
                topic=topic.topic,
                topic_id=topic.topic_id,
                partitions=[
                    PartitionData(
                        partition_index=each.partition,
                        error_code=code,
                        high_watermark=-1,
                        records=b"",
                        aborted_transactions=None,
                    )
                    for each in topic.partitions
                ],
            )
            for topic in request.topics
        ],
    )


# --- requests --------------------------------------------------------------------------------------------------------------


def _is_of_a_node(request: Any) -> bool:
    """Whether another node asks, as its followers and candidates do."""
    if request.api_key == ApiKey.FETCH:
        return bool(request.replica_id >= 0 or request.replica_state.replica_id >= 0)
    return request.api_key in _BETWEEN_NODES or bool(getattr(request, "replica_id", -1) >= 0)


_BETWEEN_NODES = frozenset({ApiKey.WRITE_TXN_MARKERS, ApiKey.BROKER_HEARTBEAT, ApiKey.ALTER_PARTITION})


def _topics_of(request: Any, names: Callable[[bytes], str | None]) -> Iterable[str]:
    """The topics that a request names, by name or by id, wherever it names them."""
    found: set[str] = set()
    for list_name in ("topic_data", "topics", "resources"):
        for each in getattr(request, list_name, None) or ():
            if isinstance(each, str):
                found.add(each)
                continue
            name = getattr(each, "name", None) or getattr(each, "topic", None) or getattr(each, "resource_name", None)
            if not name and (topic_id := getattr(each, "topic_id", None)):
                name = names(topic_id)
            if isinstance(name, str) and name:
                found.add(name)
    return found


def _api_key(name: str) -> int:
    names = {api(key).name: int(key) for key in HANDLERS}
    found = names.get(name)
    if found is None:
        raise ClusterError(f"no node answers {name}{did_you_mean(name, names) or ': it is named as in Produce'}")
    return found


def _error_code(error: str | ErrorCode) -> ErrorCode:
    if isinstance(error, ErrorCode):
        return error
    known = ErrorCode.__members__
    code = known.get(error)
    if code is None:
        raise ClusterError(
            f"Kafka has no error {error}{did_you_mean(error, known) or ': it is named as in UNKNOWN_TOPIC_ID'}"
        )
    return code
