"""Who issues tokens in tests: a key with its JWKS file, and an endpoint over HTTP that answers as it is told."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


class Issuer:
    """Signs tokens, and says by which key in a file beside."""

    def __init__(self, directory: Path) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        jwk = json.loads(RSAAlgorithm.to_jwk(self._key.public_key()))
        self._keys = directory / "jwks.json"
        self._keys.write_text(json.dumps({"keys": [{**jwk, "kid": "1", "alg": "RS256", "use": "sig"}]}))

    @property
    def settings(self) -> dict[str, str]:
        """Of a node whose listener CLIENTS takes these tokens."""
        prefix = "listener.name.clients.oauthbearer."
        return {
            f"{prefix}sasl.server.callback.handler.class": VALIDATOR,
            f"{prefix}sasl.oauthbearer.jwks.endpoint.url": self._keys.as_uri(),
            "org.apache.kafka.sasl.oauthbearer.allowed.files": str(self._keys),
            "org.apache.kafka.sasl.oauthbearer.allowed.urls": self._keys.as_uri(),
        }

    def token(self, subject: str, *, lifetime_s: float = 3600) -> str:
        now_s = time.time()
        claims = {"sub": subject, "iat": int(now_s), "exp": now_s + lifetime_s, "scope": "kafka"}
        return jwt.encode(claims, self._key, algorithm="RS256", headers={"kid": "1"})


class TokenServer:
    """A token endpoint: answers as it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.answer: Callable[[], Any] = dict
        self.asked: list[tuple[dict[str, str], bytes]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self.url = f"http://127.0.0.1:{self._server.server_port}/oauth2/token"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                endpoint.asked.append(({name.lower(): value for name, value in self.headers.items()}, body))
                answer = json.dumps(endpoint.answer()).encode()
                self.send_response(endpoint.status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        return Handler
