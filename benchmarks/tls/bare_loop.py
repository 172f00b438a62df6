"""The least that Python can encrypt for: one `ssl` object and a buffer in memory, with nobody to send to.

It encrypts as a node does, 64 KB at a time as four records, and reads what came of it. The other end decrypts that and compares
it, while the clock stands.
"""

from __future__ import annotations

import ssl
import time
from pathlib import Path
from typing import NamedTuple

from benchmarks.broker.load_client import LoadError

PIECE_BYTES = 64 * 1024
RECORD_BYTES = 16 * 1024
# Between two looks at the clock, and at what came of it.
STRETCH_BYTES = 1024 * 1024


class Ends(NamedTuple):
    """A server and a client that have shaken hands, and the buffers between them."""

    server: ssl.SSLObject
    client: ssl.SSLObject
    to_server: ssl.MemoryBIO
    to_client: ssl.MemoryBIO


def shaken(key_store: Path) -> Ends:
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(key_store)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = Ends(
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server),
        to_server,
        to_client,
    )
    for end in (ends.client, ends.server, ends.client, ends.server):
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
    return ends


def cpu_s_per_gb(key_store: Path, count_bytes: int, cipher: str) -> float:
    """CPU of this thread for encrypting. LoadError where the cipher is another one, or a byte is."""
    ends = shaken(key_store)
    used = ends.server.cipher()
    if used is None or used[0] != cipher:
        raise LoadError(f"the bare loop would encrypt with {used and used[0]}, the brokers with {cipher}")
    piece = memoryview(bytes(range(256)) * (PIECE_BYTES // 256))
    records = [piece[start : start + RECORD_BYTES] for start in range(0, PIECE_BYTES, RECORD_BYTES)]
    write, read = ends.server.write, ends.to_client.read
    stretches = max(1, count_bytes // STRETCH_BYTES)
    taken_s = 0.0
    # The first does not count.
    for number in range(-1, stretches):
        begun_s = time.thread_time()
        encrypted = []
        for _ in range(STRETCH_BYTES // PIECE_BYTES):
            for record in records:
                write(record)
            encrypted.append(read())
        if number >= 0:
            taken_s += time.thread_time() - begun_s
        for each in encrypted:
            ends.to_client.write(each)
            if any(ends.client.read(RECORD_BYTES) != record for record in records):
                raise LoadError("what the bare loop has encrypted does not decrypt to the same")
    return taken_s / (stretches * STRETCH_BYTES / 1e9)
