"""A well-behaved client: one request, its answer, and the next one. A process of its own: no load of ours weighs on its clock.

python -m benchmarks.fairness.polite PORT TOPIC SECONDS       the round trips in microseconds, one a line

It gives up after `ANSWER_TIMEOUT_S` without an answer, which is then its last round trip.
"""

from __future__ import annotations

import socket
import struct
import sys
import time

from benchmarks.fairness.requests import metadata

ANSWER_TIMEOUT_S = 60.0


def main() -> None:
    port, topic, seconds = int(sys.argv[1]), sys.argv[2], float(sys.argv[3])
    taken_ns: list[int] = []
    with socket.create_connection(("127.0.0.1", port), ANSWER_TIMEOUT_S) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        end_ns = time.perf_counter_ns() + round(seconds * 1e9)
        number = 0
        while (sent_ns := time.perf_counter_ns()) < end_ns:
            number += 1
            try:
                connection.sendall(metadata(number, topic))
                answered = _read_answer(connection)
            except TimeoutError:
                taken_ns.append(time.perf_counter_ns() - sent_ns)
                break
            if answered != number:
                sys.exit(f"the answer to request {answered}, where {number} was asked")
            taken_ns.append(time.perf_counter_ns() - sent_ns)
    print("\n".join(f"{each / 1000:.1f}" for each in taken_ns))


def _read_answer(connection: socket.socket) -> int:
    """The correlation id of the next answer."""
    data = b""
    size = 4
    while len(data) < size:
        piece = connection.recv(1 << 16)
        if not piece:
            sys.exit("the broker closed the connection")
        data += piece
        if len(data) >= 4:
            size = 4 + struct.unpack_from(">i", data)[0]
    return int(struct.unpack_from(">i", data, 4)[0])


if __name__ == "__main__":
    main()
