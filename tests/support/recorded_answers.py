"""Conversations with a node, frame for frame: what was sent, and the exact bytes that were answered.

A conversation is a compressed text file under tests/fixtures/answers (`xzcat` shows it), made by tools/record_answers.py from
tests/support/answer_scenarios.
It is replayed byte for byte against a node of its own, over real sockets, on whichever twin of the kernels the process has
chosen:

    python -m tests.support.recorded_answers                all of them; prints what differs, and ends with 1 where something does

    set KEY=VALUE       a setting of the node
    # LABEL             of the step that follows
    > NAME HEX          sent on the connection of that name, in one piece; it is opened when it is first named. Names that begin
                        with "controller" reach the controller's listener
    ? NAME HEX          the same, and sent again until the answer is the one on the next line: a coordinator is being made
    < NAME HEX          one answer, without its size
    x NAME              the node closes that connection, with nothing more to say
    ~                   until the node has read everything that was sent (a fetch is parked, a write waits for followers)
    + MS                the clock moves forward

Nothing is left out of the comparison. A node answers with the same bytes each time since its clock stands still (only time-outs
pass), its chance has a seed, its addresses are made up, and idle metadata records, which would raise broker epochs, are off.
"""

from __future__ import annotations

import asyncio
import logging
import lzma
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from tests.support.running_node import DEADLINE_S, RunningNode
from tidelog.kernel_choice import choice
from tidelog.model.ids import TimestampMs
from tidelog.wire.apis import api
from tidelog.wire.errors import WireError
from tidelog.wire.frames import read_request, read_request_header, read_response
from tidelog.wire.record_batch import each_batch

RECORDED = Path(__file__).resolve().parent.parent / "fixtures" / "answers"
START_MS = 1_700_000_000_000
SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "advertised.listeners": "PLAINTEXT://node-1.example:9092,CONTROLLER://node-1.example:9093",
    "metadata.max.idle.interval.ms": "0",
    # Brokers that only register are never heard of again.
    "broker.session.timeout.ms": "600000",
    "replica.lag.time.max.ms": "600000",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "2",
    "group.initial.rebalance.delay.ms": "0",
    "socket.request.max.bytes": "100000",
    "log.index.size.max.bytes": "4096",
}
# After so many differences of one conversation, the others mostly follow from the first.
DIFFERENCES_MAX = 5
# How much of a field that differs is shown.
SHOWN_CHARACTERS = 200
# How long a question is asked again. A coordinator takes some milliseconds.
REPEATED_S = 10.0
# As long as a conversation is silent where it should be, at most.
_TURNS = 8


class Step(NamedTuple):
    """One line of a conversation."""

    kind: str
    name: str
    data: bytes
    label: str


class Conversation(NamedTuple):
    settings: Mapping[str, str]
    steps: list[Step]


class SteadyClock:
    """Stands still for everybody who looks at the date; what is measured in between, passes."""

    def __init__(self) -> None:
        self._ahead_ms = 0

    def now_ms(self) -> TimestampMs:
        return TimestampMs(START_MS + self._ahead_ms)

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000 + self._ahead_ms

    def monotonic_ns(self) -> int:
        return time.monotonic_ns() + self._ahead_ms * 1_000_000

    def advance(self, ms: int) -> None:
        self._ahead_ms += ms


class SteadyRandom(Random):
    """Ids of each kind come from a sequence of their own, so that one more draw for anything else changes none of them."""

    def __init__(self) -> None:
        super().__init__(1)
        self._uuids, self._sessions, self._members = Random(2), Random(3), Random(4)

    def randbytes(self, n: int) -> bytes:
        return self._uuids.randbytes(n)

    def randint(self, a: int, b: int) -> int:
        return self._sessions.randint(a, b)

    def getrandbits(self, k: int, /) -> int:
        return self._members.getrandbits(k) if k == 128 else super().getrandbits(k)


class Talk:
    """Connections to one node, by name."""

    def __init__(self, node: RunningNode, clock: SteadyClock) -> None:
        self._node = node
        self._clock = clock
        self._sockets: dict[str, socket.socket] = {}

    def send(self, name: str, data: bytes) -> None:
        if name not in self._sockets:
            listener = "CONTROLLER" if name.startswith("controller") else "PLAINTEXT"
            port = self._node.node._server.listeners[listener].address.port
            self._sockets[name] = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
            self._sockets[name].setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # Whether a connection that has been closed was to be expected, the next line says.
        with suppress(ConnectionResetError, BrokenPipeError):
            self._sockets[name].sendall(data)

    def receive(self, name: str) -> bytes | None:
        """One answer, or None where the connection has been closed."""
        size = self._exactly(name, 4)
        return None if size is None else self._exactly(name, struct.unpack(">i", size)[0])

    def _exactly(self, name: str, count: int) -> bytes | None:
        received = b""
        while len(received) < count:
            try:
                piece = self._sockets[name].recv(count - len(received))
            except ConnectionResetError:
                piece = b""
            if not piece:
                return None
            received += piece
        return received

    def settle(self) -> None:
        """Everything that was sent has been read: it lies in the node's sockets, and its loop has turned since."""

        async def turned() -> None:
            for _ in range(_TURNS):
                await asyncio.sleep(0)

        self._node.run(turned())

    def advance(self, ms: int) -> None:
        self._clock.advance(ms)

    def left_over(self) -> list[str]:
        """Connections on which there is more to read than anybody expects."""
        self.settle()
        found = []
        for name, each in self._sockets.items():
            each.setblocking(False)
            try:
                if each.recv(1):
                    found.append(name)
            except (BlockingIOError, ConnectionResetError):
                pass
        return found

    def close(self) -> None:
        for each in self._sockets.values():
            each.close()


@contextmanager
def talking(settings: Mapping[str, str]) -> Iterator[Talk]:
    """A new node, and connections to it."""
    clock = SteadyClock()
    with (
        tempfile.TemporaryDirectory() as directory,
        RunningNode(
            Path(directory) / "data", settings={**SETTINGS, **settings}, clock=clock, random=SteadyRandom()
        ) as node,
    ):
        talk = Talk(node, clock)
        try:
            yield talk
        finally:
            talk.close()


# --- files -----------------------------------------------------------------------------------------------------------------


def read(path: Path) -> Conversation:
    settings: dict[str, str] = {}
    steps: list[Step] = []
    label = ""
    for line in lzma.decompress(path.read_bytes()).decode().splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "set":
            key, _, value = rest.partition("=")
            settings[key] = value
        elif kind == "#":
            label = rest
        elif kind in {"~", "+"}:
            steps.append(Step(kind, rest, b"", label))
        else:
            name, _, data = rest.partition(" ")
            steps.append(Step(kind, name, bytes.fromhex(data), label))
    return Conversation(settings, steps)


def recordings() -> list[Path]:
    return sorted(RECORDED.glob("*.txt.xz"))


def write(path: Path, conversation: Conversation) -> None:
    path.write_bytes(lzma.compress("\n".join([*lines_of(conversation), ""]).encode(), preset=9))


def lines_of(conversation: Conversation) -> list[str]:
    lines = [f"set {key}={value}" for key, value in conversation.settings.items()]
    label = ""
    for step in conversation.steps:
        if step.label != label:
            label = step.label
            lines.append(f"# {label}")
        lines.append(" ".join(each for each in (step.kind, step.name, step.data.hex()) if each))
    return lines


# --- comparison ------------------------------------------------------------------------------------------------------------


def replay(conversation: Conversation) -> list[str]:
    """What differs, in words; the conversation is broken off where nothing sensible can follow."""
    with talking(conversation.settings) as talk:
        differences = list(_differences(conversation.steps, talk))
        if not differences:
            differences = [f"connection {name}: an answer too many at the end" for name in talk.left_over()]
    return differences


def _differences(steps: Iterable[Step], talk: Talk) -> Iterator[str]:
    asked: dict[str, dict[int, tuple[int, int]]] = {}
    found = 0
    repeated: Step | None = None
    for step in steps:
        match step.kind:
            case ">" | "?":
                repeated = step if step.kind == "?" else None
                for frame in frames_of(step.data):
                    if len(frame) >= 8:
                        key, version, correlation_id = struct.unpack_from(">hhi", frame)
                        asked.setdefault(step.name, {})[correlation_id] = key, version
                talk.send(step.name, step.data)
            case "~":
                talk.settle()
            case "+":
                talk.advance(int(step.name))
            case _:
                received = talk.receive(step.name)
                expected = step.data if step.kind == "<" else None
                if repeated is not None:
                    received = _asked_again(talk, repeated, expected, received)
                if received == expected:
                    continue
                found += 1
                where = f"{step.label} (connection {step.name})"
                yield from (f"{where}: {each}" for each in _explained(expected, received, asked.get(step.name, {})))
                if received is None or expected is None or found == DIFFERENCES_MAX:
                    return


def _asked_again(talk: Talk, step: Step, expected: bytes | None, received: bytes | None) -> bytes | None:
    """The answer to a question once it is the recorded one, or else the last."""
    deadline_s = time.monotonic() + REPEATED_S
    while received not in {expected, None} and time.monotonic() < deadline_s:
        talk.settle()
        talk.send(step.name, step.data)
        received = talk.receive(step.name)
    return received


def frames_of(data: bytes) -> Iterator[bytes]:
    """The whole frames of one send, each without its size."""
    position = 0
    while position + 4 <= len(data):
        (size,) = struct.unpack_from(">i", data, position)
        if size < 0 or position + 4 + size > len(data):
            return
        yield data[position + 4 : position + 4 + size]
        position += 4 + size


def _explained(expected: bytes | None, received: bytes | None, asked: Mapping[int, tuple[int, int]]) -> Iterator[str]:
    """How an answer differs from the recorded one, field by field."""
    if expected is None:
        assert received is not None
        yield f"answered {received.hex()[:SHOWN_CHARACTERS]}, where the connection was closed"
        return
    correlation_id = int.from_bytes(expected[:4], "big")
    key, version = asked.get(correlation_id, (-1, -1))
    name = f"{api(key).name} v{version}" if key >= 0 else "an answer"
    if received is None:
        yield f"{name}: the connection was closed instead of an answer"
        return
    try:
        (was_id, was), (now_id, now) = (read_response(frame, key, version) for frame in (expected, received))
    except (WireError, KeyError, ValueError) as error:
        yield f"{name}: cannot be read ({error}); was {expected.hex()}, is {received.hex()}"
        return
    fields = [*_fields(f"{name} correlation id", was_id, now_id), *_fields(name, was, now)]
    if not fields:
        first = next(
            (n for n, (a, b) in enumerate(zip(expected, received, strict=False)) if a != b),
            min(len(expected), len(received)),
        )
        yield (
            f"{name}: the same fields in other bytes, from byte {first} on (of {len(expected)}, now {len(received)}): "
            f"was {expected[first : first + 32].hex()}, is {received[first : first + 32].hex()}"
        )
    yield from fields


def _fields(path: str, was: Any, now: Any) -> Iterator[str]:
    if isinstance(was, memoryview | bytes) and isinstance(now, memoryview | bytes):
        if bytes(was) != bytes(now):
            yield f"{path}: was {_bytes_shown(bytes(was))}, is {_bytes_shown(bytes(now))}"
        return
    if isinstance(was, list | tuple) and isinstance(now, list | tuple):
        if len(was) != len(now):
            yield f"{path}: had {len(was)} entries, has {len(now)}"
        for number, (one, other) in enumerate(zip(was, now, strict=False)):
            yield from _fields(f"{path}[{number}]", one, other)
        return
    names = names_of(was)
    if names and type(was) is type(now):
        for name in names:
            yield from _fields(f"{path}.{name}", getattr(was, name), getattr(now, name))
    elif was != now:
        yield f"{path}: was {str(was)[:SHOWN_CHARACTERS]}, is {str(now)[:SHOWN_CHARACTERS]}"


def names_of(value: Any) -> tuple[str, ...]:
    """The fields of a message or of a structure within one; of anything else, none."""
    kind = type(value)
    names: tuple[str, ...] = getattr(kind, "__struct_fields__", ()) or getattr(kind, "__match_args__", ())
    return names


def _bytes_shown(data: bytes) -> str:
    try:
        headers = [f"{header.base_offset}..{header.next_offset - 1}" for _, header in each_batch(data)]
    except (WireError, ValueError):
        headers = []
    return f"{len(data)} bytes {data.hex()[:SHOWN_CHARACTERS]}" + (
        f" (offsets {', '.join(headers)})" if headers else ""
    )


def request_shown(frame: bytes) -> str:
    """A request in words, for whoever looks for what a step asks."""
    header, position = read_request_header(frame)
    return str(read_request(frame, header, position))


def main() -> int:
    """Replays those that are named, or all."""
    # Of a node's log only what is not about the bytes that it was sent.
    logging.basicConfig(level=logging.ERROR)
    wanted = sys.argv[1:]
    frames = 0
    differences = []
    for path in recordings():
        name = path.name.removesuffix(".txt.xz")
        if not wanted or name in wanted:
            conversation = read(path)
            frames += len(conversation.steps)
            differences += [f"{name}: {each}" for each in replay(conversation)]
    for each in differences:
        print(each)
    print(f"{frames} frames, kernels: {choice.twin}; {len(differences) or 'no'} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
