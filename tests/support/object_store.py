"""An object store from PyPI (moto), on a port of its own, with one bucket."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import NamedTuple

BUCKET = "lake"
SECRET = "OBJECT_STORE_SECRET"
"""A variable with the secret, which settings refer to."""


class ObjectStore(NamedTuple):
    host: str
    port: int

    @property
    def settings(self) -> dict[str, str]:
        """As pipelines have them."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.host}:{self.port}",
            "AWS_ACCESS_KEY_ID": "someone",
            "AWS_SECRET_ACCESS_KEY": f"${{env:{SECRET}}}",
        }

    def keys(self, prefix: str = "") -> list[str]:
        """All objects', as the store itself lists them."""
        from moto.s3.models import s3_backends

        bucket = s3_backends["123456789012"]["aws"].buckets[BUCKET]
        return sorted(str(each) for each in bucket.keys if str(each).startswith(prefix))


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    from moto.server import ThreadedMotoServer

    # A line for each request.
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        store = ObjectStore(*server.get_host_and_port())
        connection = HTTPConnection(store.host, store.port, timeout=30)
        for path in ("/moto-api/reset", f"/{BUCKET}"):
            connection.request("POST" if path.endswith("reset") else "PUT", path)
            assert connection.getresponse().read() is not None
        connection.close()
        yield store
    finally:
        server.stop()
