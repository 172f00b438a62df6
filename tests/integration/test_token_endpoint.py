"""Asking an endpoint for a token, over a real socket: what is sent, what is taken, and what each refusal comes to."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tidelog.security.token_endpoint import ANSWER_BYTES_MAX, TokenEndpoint, TokenEndpointError, read_token_file
from tidelog.security.token_request import ClientSecret

ASKED = ClientSecret("c", "s")


@dataclass
class Endpoint:
    """A token endpoint of a test's own: answers as it is told, and keeps what it was asked."""

    url: str = ""
    status: int = 200
    answer: bytes = b'{"access_token": "t0ken"}'
    location: str | None = None
    asked: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    def client(self, **more: object) -> TokenEndpoint:
        return TokenEndpoint(self.url, ClientSecret(" orders ", " s3cret:/ ", **more))  # type: ignore[arg-type]


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("no_proxy", "*")
    made = Endpoint()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            self.send_response(made.status)
            if made.location is not None:
                self.send_header("Location", made.location)
            self.send_header("Content-Length", str(len(made.answer)))
            self.end_headers()
            self.wfile.write(made.answer)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_port}/oauth2/token"
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_the_request_is_kafkas(endpoint: Endpoint) -> None:
    token = endpoint.client(scope="kafka read").fetch()

    assert token == "t0ken"
    path, headers, body = endpoint.asked[0]
    assert path == "/oauth2/token"
    assert body == b"grant_type=client_credentials&scope=kafka read"
    # echo -n orders:s3cret:/ | base64
    assert headers["authorization"] == "Basic b3JkZXJzOnMzY3JldDov"
    assert headers["content-type"] == "application/x-www-form-urlencoded"
    assert headers["accept"] == "application/json"
    assert headers["cache-control"] == "no-cache"


def test_without_a_scope_none_is_asked_for_and_encoding_is_for_those_who_want_it(endpoint: Endpoint) -> None:
    endpoint.client().fetch()
    endpoint.client(scope="a b", header_urlencode=True).fetch()

    assert [body for _, _, body in endpoint.asked] == [
        b"grant_type=client_credentials",
        b"grant_type=client_credentials&scope=a+b",
    ]
    # echo -n orders:s3cret%3A%2F | base64
    assert endpoint.asked[1][1]["authorization"] == "Basic b3JkZXJzOnMzY3JldCUzQSUyRg=="


def test_an_id_token_will_do_where_there_is_no_access_token(endpoint: Endpoint) -> None:
    endpoint.answer = b'{"access_token": " ", "id_token": "other"}'

    assert endpoint.client().fetch() == "other"


@pytest.mark.parametrize(
    ("status", "answer", "words", "is_final"),
    [
        (
            401,
            b'{"error": "invalid_client", "error_description": "who?"}',
            'answered with status 401: "invalid_client" - "who?"',
            True,
        ),
        (
            400,
            b'{"errorCode": "E07", "errorSummary": "no"}',
            'answered with status 400: "E07" - "no"',
            True,
        ),
        (503, b"<html>later</html>", "answered with status 503: <html>later</html>", False),
        (429, b"", "answered with status 429: nothing more", False),
        (302, b"", "answered with status 302: nothing more; a redirection is not followed", True),
        (200, b"{}", "has no access_token", True),
        (200, b"not JSON", "has no access_token", True),
        (200, b"[" * 100_000, "has no access_token", True),
        (200, b"x" * (ANSWER_BYTES_MAX + 1), "has more than 1048576 bytes", True),
    ],
)
def test_a_refusal_is_one_sentence_that_says_whether_to_try_again(
    endpoint: Endpoint, status: int, answer: bytes, words: str, is_final: bool
) -> None:
    endpoint.status, endpoint.answer = status, answer
    endpoint.location = "http://127.0.0.1:1/" if status == 302 else None

    with pytest.raises(TokenEndpointError) as caught:
        endpoint.client().fetch()

    assert str(caught.value).endswith(words)
    assert caught.value.is_final is is_final
    assert len(str(caught.value)) < 1500
    assert "s3cret" not in str(caught.value)


def test_an_endpoint_that_is_not_there_may_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with pytest.raises(TokenEndpointError) as caught:
        TokenEndpoint("http://127.0.0.1:1/token?key=hidden", ASKED).fetch()

    assert str(caught.value) == "the token endpoint http://127.0.0.1:1/token was not reached: Connection refused"
    assert not caught.value.is_final


def test_a_silent_endpoint_is_waited_for_no_longer_than_the_read_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        with pytest.raises(TokenEndpointError, match="was not reached: no answer in time"):
            TokenEndpoint(url, ASKED, connect_timeout_s=30, read_timeout_s=0.05).fetch()


def test_plain_http_where_tls_was_expected_is_one_sentence(endpoint: Endpoint) -> None:
    url = endpoint.url.replace("http:", "https:")

    with pytest.raises(TokenEndpointError) as caught:
        TokenEndpoint(url, ASKED, tls=ssl.create_default_context).fetch()

    assert "was not reached" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_token_may_be_in_a_file_that_changes(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    url = file.as_uri()

    with pytest.raises(TokenEndpointError, match="cannot be read: No such file"):
        read_token_file(url)
    file.write_text("")
    with pytest.raises(TokenEndpointError, match="is empty"):
        read_token_file(url)
    file.write_text(json.dumps("x") + "\n")
    assert read_token_file(url) == '"x"'
