"""The parts of the TLS benchmark that stand alone: its keys, the loop that only encrypts, and the client that shakes hands."""

from __future__ import annotations

import socket
import ssl
import threading

import pytest

from benchmarks.broker.load_client import LoadError
from benchmarks.tls import bare_loop, handshakes
from benchmarks.tls.identities import EC, RSA, Identities

TIMEOUT_S = 20.0
CIPHER = "TLS_AES_256_GCM_SHA384"


@pytest.fixture(scope="module")
def identities(tmp_path_factory: pytest.TempPathFactory) -> Identities:
    return Identities.written(tmp_path_factory.mktemp("tls") / "identities")


def test_both_listeners_have_a_key_store_of_their_own(identities: Identities) -> None:
    settings = identities.settings()

    assert settings["listener.name.ec.ssl.keystore.location"] == str(identities.key_store(EC))
    assert settings["listener.name.rsa.ssl.keystore.location"] == str(identities.key_store(RSA))
    assert "EC:SSL,RSA:SSL" in settings["listener.security.protocol.map"]


def test_the_bare_loop_says_what_encrypting_takes(identities: Identities) -> None:
    assert bare_loop.cpu_s_per_gb(identities.key_store(EC), 2_000_000, CIPHER) > 0


def test_the_bare_loop_refuses_another_cipher(identities: Identities) -> None:
    with pytest.raises(LoadError, match="would encrypt with TLS_AES_256_GCM_SHA384, the brokers with TLS_OTHER"):
        bare_loop.cpu_s_per_gb(identities.key_store(EC), 1, "TLS_OTHER")


@pytest.mark.parametrize("listener", [EC, RSA])
def test_a_handshake_ends_when_the_server_has_ended_it(identities: Identities, listener: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(identities.key_store(listener))
    ended = []
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(TIMEOUT_S)

        def serve() -> None:
            plain, _ = listening.accept()
            with context.wrap_socket(plain, server_side=True) as secured:
                ended.append(secured.recv(1))

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            agreed = handshakes.shake_hands(handshakes.client_context(), listening.getsockname()[1])
        finally:
            serving.join(TIMEOUT_S)

    assert agreed == f"TLSv1.3 {CIPHER}"
    assert ended == [b""]


def test_a_server_without_tls_is_a_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(TIMEOUT_S)

        def serve() -> None:
            plain, _ = listening.accept()
            with plain:
                plain.recv(4096)
                plain.sendall(b"no TLS here, whatever it is that you have sent")

        serving = threading.Thread(target=serve)
        serving.start()
        try:
            with pytest.raises(ssl.SSLError):
                handshakes.shake_hands(handshakes.client_context(), listening.getsockname()[1])
        finally:
            serving.join(TIMEOUT_S)
