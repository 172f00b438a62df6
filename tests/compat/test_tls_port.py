"""What a scanner of TLS ports, SSLyze, finds wrong with ours: nothing.

Its look for early data needs a server that speaks HTTP, and is left out.
"""

from __future__ import annotations

import json
import subprocess
import venv
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.apache_kafka import ApacheKafka
from tests.support.security_tables.tls_node import TlsNode, tls_node
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat

VERSION = "6.3.1"
TIMEOUT_S = 300.0
OLD = ("ssl_2_0_cipher_suites", "ssl_3_0_cipher_suites", "tls_1_0_cipher_suites", "tls_1_1_cipher_suites")
NOW = ("tls_1_2_cipher_suites", "tls_1_3_cipher_suites")
LOOKS = (
    *("--sslv2", "--sslv3", "--tlsv1", "--tlsv1_1", "--tlsv1_2", "--tlsv1_3"),
    *("--heartbleed", "--openssl_ccs", "--reneg", "--compression", "--robot"),
)
# Without forward secrecy, encryption or authentication, or by broken means.
WEAK = ("NULL", "EXPORT", "anon", "RC4", "3DES", "MD5", "_DES_", "TLS_RSA_WITH")


@pytest.fixture(scope="module")
def node(kafka: ApacheKafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TlsNode]:
    place = tls_node(kafka, tmp_path_factory.mktemp("node"))
    with TidelogNode(place.place).running():
        yield place


@pytest.fixture(scope="module")
def found(node: TlsNode, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What SSLyze says, by its commands. It has an environment of its own: it wants other releases of what we use."""
    place = tmp_path_factory.mktemp("sslyze")
    venv.create(place / "environment", with_pip=True)
    program = place / "environment" / "bin"
    _run([str(program / "python"), "-m", "pip", "install", "-q", f"sslyze=={VERSION}"])
    told = place / "told.json"
    _run([str(program / "sslyze"), "--json_out", str(told), "--mozilla_config", "disable", *LOOKS, node.secure])
    (server,) = json.loads(told.read_text())["server_scan_results"]
    assert server["scan_status"] == "COMPLETED", server
    results: dict[str, Any] = server["scan_result"]
    return results


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"


def accepted(found: dict[str, Any], name: str) -> list[str]:
    return [each["cipher_suite"]["name"] for each in found[name]["result"]["accepted_cipher_suites"]]


@pytest.mark.parametrize("name", OLD)
def test_old_protocols_are_not_spoken(found: dict[str, Any], name: str) -> None:
    assert accepted(found, name) == []


@pytest.mark.parametrize("name", NOW)
def test_todays_protocols_are_spoken_with_strong_ciphers_alone(found: dict[str, Any], name: str) -> None:
    suites = accepted(found, name)

    assert suites
    assert [suite for suite in suites if any(word in suite for word in WEAK)] == []


def test_there_are_none_of_the_known_holes(found: dict[str, Any]) -> None:
    assert not found["heartbleed"]["result"]["is_vulnerable_to_heartbleed"]
    assert not found["openssl_ccs_injection"]["result"]["is_vulnerable_to_ccs_injection"]
    assert not found["session_renegotiation"]["result"]["is_vulnerable_to_client_renegotiation_dos"]
    assert not found["tls_compression"]["result"]["supports_compression"]
    assert found["robot"]["result"]["robot_result"].startswith("NOT_VULNERABLE")
