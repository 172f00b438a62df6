"""Large answers, which leave by `sendfile` on a plain connection and are encrypted on one with TLS."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from benchmarks.instructions.operations import (
    LIBRDKAFKA_FETCH,
    LIBRDKAFKA_PRODUCE,
    TIME_MS,
    VALUE,
    Client,
    Operation,
    check_fetched,
    check_produced,
    fetch,
    produce,
)
from benchmarks.tls.identities import EC, HOST, Identities
from tidelog.wire.messages.fetch import FetchResponse
from tidelog.wire.messages.produce import ProduceResponse
from tidelog.wire.records import Record, build_batch

BATCH_RECORDS = 900
BATCHES = 4


class SecuredClient(Client):
    """A blocking connection with TLS."""

    def __init__(self, port: int, authority: Path) -> None:
        super().__init__(port)
        context = ssl.create_default_context(cafile=str(authority))
        self._socket = context.wrap_socket(self._socket, server_hostname=HOST)


class LargeFetch(Operation):
    """One batch of 900 KB from the file, again and again the same few."""

    name = "fetch of 900 KB"
    times = 40

    def connect(self) -> Client:
        return self.setting.connect()

    def prepare(self, times: int) -> None:
        name, topic_id = self.setting.topic()
        records = [Record(number, TIME_MS, None, VALUE, ()) for number in range(BATCH_RECORDS)]
        batch = build_batch(records)
        for _ in range(BATCHES):
            request = produce(name, topic_id, batch, version=LIBRDKAFKA_PRODUCE)
            check_produced(self.setting.client.ask(request, LIBRDKAFKA_PRODUCE, ProduceResponse))
        self.client = self.connect()
        self._frames = [
            self.client.frame(fetch(topic_id, {0: number % BATCHES * BATCH_RECORDS}), LIBRDKAFKA_FETCH)
            for number in range(times)
        ]

    def turn(self, number: int) -> None:
        self.client.send(self._frames[number])
        check_fetched(self.client.answer(FetchResponse, LIBRDKAFKA_FETCH))


class EncryptedFetch(LargeFetch):
    name = "fetch of 900 KB, TLS"
    without = "fetch-900k"
    listeners: ClassVar[tuple[str, ...]] = (EC,)

    @classmethod
    def node_settings(cls, directory: Path) -> Mapping[str, str]:
        settings = Identities.written(directory / "identities").settings()
        return {key: value for key, value in settings.items() if ".rsa." not in key}

    def connect(self) -> Client:
        node = self.setting.node
        return SecuredClient(node.listener_ports[EC], Identities(node.directory / "identities").authority)


ENCRYPTED: dict[str, type[Operation]] = {"fetch-900k": LargeFetch, "fetch-900k-tls": EncryptedFetch}
