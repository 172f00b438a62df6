"""Runs everything that holds Tidelog beside programs that others wrote, and writes docs/compatibility.md from the outcome.

    .venv/bin/python tools/compatibility_report.py          needs java, mvn, kcat and go; ten minutes

Nothing in the document is typed by hand: headings are the first lines of the test modules, rows are the names of the
tests, figures are what the tests recorded with `record_property`, versions are asked of the programs. The exit code is that
of the tests.
"""

from __future__ import annotations

import ast
import importlib.metadata
import platform
import re
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree as ET

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

import tidelog.wire.records  # noqa: E402, F401  (loads the kernels, so that they can be named)
from tests.support.apache_kafka import KAFKA_VERSION, ApacheKafka, MissingProgramError  # noqa: E402
from tidelog.kernel_choice import loaded as loaded_kernels  # noqa: E402

DOCUMENT = REPOSITORY / "docs" / "compatibility.md"
RESULTS = REPOSITORY / ".compat" / "results.xml"
# Beside tests/compat: what needs nothing from outside PyPI, but compares with the work of others all the same.
MORE = ("tests/integration/test_kafka_fixture*.py", "tests/property/test_*oracle*.py")
ORACLES = ("kio", "kafka-python")
# Names of programs, as they stand in the names of tests.
PROGRAMS = (
    "kafka-broker-api-versions",
    "kafka-cluster",
    "kafka-configs",
    "kafka-console-consumer",
    "kafka-console-producer",
    "kafka-delete-records",
    "kafka-features",
    "kafka-get-offsets",
    "kafka-log-dirs",
    "kafka-metadata-quorum",
    "kafka-producer-perf-test",
    "kafka-python",
    "kafka-topics",
    "franz-go",
    "kcat",
)


@dataclass
class Outcome:
    """One test, over all its parameters."""

    results: Counter[str] = field(default_factory=Counter)
    figures: dict[str, str] = field(default_factory=dict)
    reason: str = ""


def run_tests() -> int:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.unlink(missing_ok=True)
    more = [str(path.relative_to(REPOSITORY)) for pattern in MORE for path in sorted(REPOSITORY.glob(pattern))]
    # xunit1 is the form that keeps a test's recorded figures. One process: there is room for one Kafka at a time.
    command = [sys.executable, "-m", "pytest", "-m", "not soak", "-o", "junit_family=xunit1", f"--junitxml={RESULTS}"]
    return subprocess.run([*command, "tests/compat", *more], cwd=REPOSITORY, check=False).returncode


def read_results() -> dict[str, dict[str, Outcome]]:
    """Outcomes by module and test, in the order in which they ran."""
    found: dict[str, dict[str, Outcome]] = {}
    for case in ET.parse(RESULTS).getroot().iter("testcase"):
        module, name = case.get("classname", ""), case.get("name", "").split("[")[0]
        outcome = found.setdefault(module, {}).setdefault(name, Outcome())
        problem = next((child for child in case if child.tag in {"failure", "error", "skipped"}), None)
        outcome.results["passed" if problem is None else "failed" if problem.tag != "skipped" else "skipped"] += 1
        if problem is not None:
            outcome.reason = problem.get("message", "").splitlines()[0] if problem.get("message") else problem.tag
        for recorded in case.iter("property"):
            outcome.figures[recorded.get("name", "")] = recorded.get("value", "")
    return found


def heading(module: str) -> str:
    path = REPOSITORY / (module.replace(".", "/") + ".py")
    text = ast.get_docstring(ast.parse(path.read_text())) if path.exists() else None
    return text.splitlines()[0].rstrip(".") if text else module


def sentence(name: str) -> str:
    words = re.sub(r"^test_", "", name).replace("_", " ")
    for program in PROGRAMS:
        words = re.sub(rf"\b{program.replace('-', ' ')}\b", program, words)
    for plain, proper in ((r"kafkas\b", "Kafka's"), (r"kafka\b(?!-)", "Kafka")):
        words = re.sub(rf"\b{plain}", proper, words)
    return words if words.startswith(PROGRAMS) else words[:1].upper() + words[1:]


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def render(results: dict[str, dict[str, Outcome]], commit: str) -> str:
    total = Counter(
        {
            kind: sum(outcome.results[kind] for tests in results.values() for outcome in tests.values())
            for kind in ("passed", "failed", "skipped")
        }
    )
    facts = {
        "Tidelog": f"{importlib.metadata.version('tidelog')}, commit {commit}",
        "Kernels": ", ".join(sorted({twin for twin, _ in loaded_kernels.values()})),
        "Apache Kafka": KAFKA_VERSION,
        "Java": ApacheKafka.installed().java_version(),
        "kcat": version_of("kcat", "-V"),
        "Go": version_of("go", "version"),
        "Python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ORACLES},
        "Machine": f"{platform.system()} {platform.machine()}",
        "Tests": ", ".join(f"{count} {kind}" for kind, count in total.items() if count),
    }
    lines = ["# Compatibility", "", "Written by `make compat` from one run. Do not edit: run it again.", ""]
    lines += ["| | |", "|---|---|", *(f"| {name} | {cell(value)} |" for name, value in facts.items())]
    for module, tests in results.items():
        lines += ["", f"## {heading(module)}", "", "| | runs | |", "|---|---|---|"]
        for name, outcome in tests.items():
            runs = ", ".join(f"{count} {kind}" for kind, count in outcome.results.items())
            notes = "; ".join(f"{key}: {value}" for key, value in outcome.figures.items()) or outcome.reason
            lines.append(f"| {cell(sentence(name))} | {runs} | {cell(notes)} |")
    return "\n".join(lines) + "\n"


def version_of(*command: str) -> str:
    """The number that a program gives as its version."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)+", done.stdout)
    return found[0] if found else "unknown"


def current_commit() -> str:
    def git(*arguments: str) -> str:
        return subprocess.run(
            ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True
        ).stdout.strip()

    changed = git("status", "--porcelain", "--", "src", "tests", "tools")
    return git("rev-parse", "--short=12", "HEAD") + (", with changes that were not committed" if changed else "")


def main() -> None:
    try:
        ApacheKafka.installed()
    except MissingProgramError as error:
        sys.exit(str(error))
    commit = current_commit()
    code = run_tests()
    # 0: all passed; 1: some failed, which the document says. Anything else, and the run says nothing.
    if code not in {0, 1}:
        sys.exit(code)
    DOCUMENT.write_text(render(read_results(), commit))
    print(f"wrote {DOCUMENT.relative_to(REPOSITORY)}")
    sys.exit(code)


if __name__ == "__main__":
    main()
