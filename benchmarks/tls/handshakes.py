"""Full TLS handshakes, by several clients at once, each one after the other; in processes of their own, whose CPU is known.

    python -m benchmarks.tls.handshakes PORT COUNT        the outcome is one JSON object on standard output

A handshake counts when the broker, too, has got to its end: it has answered the end of the connection with its own, for which it
must have read the client's last message. No session is resumed. Of the certificate only that the broker has its key is verified.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import socket
import ssl
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.broker.contestants import Contestant, ContestantError
from benchmarks.broker.load_client import LoadError
from tests.support.apache_kafka import wait_until

# Each has one connection at a time. Processes, since threads would wait for each other.
CLIENTS = 4
TIMEOUT_S = 30.0
RUN_TIMEOUT_S = 300.0


@dataclass(frozen=True)
class Shaken:
    """What the program says about itself."""

    handshakes: int
    seconds: float
    client_cpu_s: float


def run(port: int, count: int) -> Shaken:
    """LoadError where one of them fails."""
    command = [sys.executable, "-m", "benchmarks.tls.handshakes", str(port), str(count)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=RUN_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        raise LoadError(f"{count} handshakes did not end within {RUN_TIMEOUT_S:.0f} s") from None
    if done.returncode != 0:
        raise LoadError(f"handshakes on port {port} failed: {done.stderr.strip()[-500:]}")
    return Shaken(**json.loads(done.stdout))


def agreed_by(nodes: Sequence[Contestant], listeners: Sequence[str]) -> str:
    """Version and cipher, which are the same on all of them, or there is nothing to compare. ContestantError where not."""
    agreed = set()
    for node in nodes:
        for listener in listeners:
            port = node.listener_ports[listener]
            # Apache Kafka opens one listener after the other.
            wait_until(lambda port=port: _listens(port), f"{node.name} listens on {listener}")  # type: ignore[misc]
            agreed.add(shake_hands(client_context(), port))
    if len(agreed) != 1:
        raise ContestantError(f"the brokers do not agree on one version and cipher: {', '.join(sorted(agreed))}")
    return agreed.pop()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S).close()
    except OSError:
        return False
    return True


def client_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    # Else a newer OpenSSL agrees with itself on a key exchange that Java does not have, and each broker does other work.
    context.set_ecdh_curve("X25519")
    return context


def shake_hands(context: ssl.SSLContext, port: int) -> str:
    """Once, from the connection to its end: version and cipher."""
    plain = socket.create_connection(("127.0.0.1", port), TIMEOUT_S)
    # Ports would run out, if each were kept for a minute.
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with context.wrap_socket(plain) as secured:
        cipher = secured.cipher()
        agreed = f"{secured.version()} {cipher and cipher[0]}"
        try:
            secured.unwrap()
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
            return agreed
        except OSError as error:
            # How Python says that the peer closed without a word of TLS: it has read ours.
            if error.errno:
                raise
    return agreed


def shake_many(port: int, count: int) -> Shaken:
    shares = [count // CLIENTS + (number < count % CLIENTS) for number in range(CLIENTS)]
    context = client_context()
    begun_s = time.monotonic()
    clients = [
        multiprocessing.get_context("fork").Process(target=_work, args=(context, port, share)) for share in shares
    ]
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    if any(client.exitcode for client in clients):
        raise LoadError("a handshake failed")
    used = os.times()
    return Shaken(count, time.monotonic() - begun_s, used.children_user + used.children_system)


def _work(context: ssl.SSLContext, port: int, share: int) -> None:
    for _ in range(share):
        shake_hands(context, port)


def main() -> None:
    try:
        shaken = shake_many(int(sys.argv[1]), int(sys.argv[2]))
    except LoadError as error:
        sys.exit(str(error))
    print(json.dumps(shaken.__dict__))


if __name__ == "__main__":
    main()
