"""Franz-go's own tests of its client, as its authors wrote them, pass against a node of ours."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.go_program import built
from tests.support.tidelog_node import TidelogNode

pytestmark = pytest.mark.compat

PACKAGE = "github.com/twmb/franz-go/pkg/kgo"
# Half a million by default, through chains of groups and transactions, on a machine that has all its cores for this.
RECORDS = 40_000
TIMEOUT_S = 240

# All of the package's tests that talk to a broker, but for those of share groups and SASL, which skip themselves where a
# broker does not announce them. Each is a program run of its own: what one leaves behind does not hide in another's output.
CHAINS = ("TestGroupETL", "TestTxnEtl")
SINGLE = (
    "Test848RegexBrokerResolves",
    "TestAddRemovePartitions",
    "TestClient_Produce",
    "TestConsumeRegex",
    "TestDirectPartitionPurge",
    "TestGroupSimple",
    "TestIssue325",
    "TestIssue337",
    "TestIssue434",
    "TestIssue523",
    "TestIssue648",
    "TestIssue769",
    "TestIssue810",
    "TestIssue865",
    "TestIssue1034",
    "TestLookbackMilli",
    "TestPauseIssue489",
    "TestPauseIssueOct2023",
    "TestPing",
    "TestPooling",
)

Suite = Callable[[str], list[str]]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TidelogNode]:
    node = TidelogNode.at(tmp_path_factory.mktemp("node"))
    with node.running():
        yield node


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("suite"), "test", "-c", PACKAGE)


@pytest.fixture
def suite(program: Path, node: TidelogNode) -> Suite:
    """Runs tests of the suite that a regular expression names; the names of those that passed. Fails where one fails."""

    def run(names: str) -> list[str]:
        seeds = {"KGO_SEEDS": node.bootstrap, "KGO_TEST_RF": "1", "KGO_TEST_RECORDS": str(RECORDS)}
        done = subprocess.run(
            [str(program), "-test.v", f"-test.run={names}", f"-test.timeout={TIMEOUT_S}s"],
            env={**os.environ, **seeds},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S + 30,
            check=False,
        )
        if done.returncode != 0:
            pytest.fail(f"the suite did not pass:\n{(done.stdout + done.stderr)[-6000:]}")
        return re.findall(r"^\s*--- PASS: (\S+)", done.stdout, re.MULTILINE)

    return run


@pytest.mark.parametrize("name", CHAINS)
def test_chains_of_groups_pass_on_every_record_once(suite: Suite, name: str) -> None:
    passed = suite(f"^{name}$")
    assert name in passed
    # Every kind of group is there: a broker that does not announce KIP-848 or static members has fewer.
    assert {kind for test in passed for kind in ("848", "static") if kind in test} == {"848", "static"}


def test_every_single_test_passes(suite: Suite) -> None:
    assert set(suite(f"^({'|'.join(SINGLE)})$")) >= set(SINGLE)
