"""Runs everything that holds Tidelog beside programs that others wrote, and writes docs/compatibility.md from the outcome.

    .venv/bin/python tools/compatibility_report.py              needs java, mvn, kcat and go; 45 minutes
    .venv/bin/python tools/compatibility_report.py --publish    the document again, of the last run that was made here

Nothing in the document is typed by hand: headings are the first lines of the test modules, rows are the names of the
tests, figures are what the tests recorded with `record_property`, versions are asked of the programs. Its first line says of
which commit it is, and when that was run.

It is not written for a tree that is no commit, nor with a failure whose reason nobody has found: a failed test needs an entry
in tests/compat/known_failures.toml for this commit, whose `message` occurs in what the test said. `--publish` is for after
that: the run need not be made again. The exit code is that of the tests, or 1 where nothing was written.
"""

from __future__ import annotations

import argparse
import ast
import importlib.metadata
import json
import platform
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

REPOSITORY = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(REPOSITORY))

import tidelog.wire.records  # noqa: E402, F401  (loads the kernels, so that they can be named)
from tests.support.apache_kafka import KAFKA_VERSION, ApacheKafka, MissingProgramError  # noqa: E402
from tidelog.kernel_choice import choice as kernel_choice  # noqa: E402

DOCUMENT = REPOSITORY / "docs" / "compatibility.md"
RESULTS = REPOSITORY / ".compat" / "results.xml"
RUN = REPOSITORY / ".compat" / "run.json"
KNOWN_FAILURES = REPOSITORY / "tests" / "compat" / "known_failures.toml"
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


class RefusedError(Exception):
    """Why the document is not written."""


@dataclass
class Outcome:
    """One test, over all its parameters."""

    results: Counter[str] = field(default_factory=Counter)
    figures: dict[str, str] = field(default_factory=dict)
    skipped: str = ""
    failures: list[str] = field(default_factory=list)
    """What each of the parameters that failed said."""


@dataclass(frozen=True)
class Run:
    """What was run, and with what."""

    commit: str
    is_clean: bool
    date: str
    facts: dict[str, str]


@dataclass(frozen=True)
class KnownFailure:
    """Why a test failed in the run of one commit: in any other it has to be found out anew."""

    commit: str
    test: str
    message: str
    reason: str


Results = dict[str, dict[str, Outcome]]


def run_tests() -> int:
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    RESULTS.unlink(missing_ok=True)
    more = [str(path.relative_to(REPOSITORY)) for pattern in MORE for path in sorted(REPOSITORY.glob(pattern))]
    # xunit1 is the form that keeps a test's recorded figures. One process: there is room for one Kafka at a time.
    command = [sys.executable, "-m", "pytest", "-m", "not soak", "-o", "junit_family=xunit1", f"--junitxml={RESULTS}"]
    return subprocess.run([*command, "tests/compat", *more], cwd=REPOSITORY, check=False).returncode


def read_results(path: Path) -> Results:
    """Outcomes by module and test, in the order in which they ran."""
    found: Results = {}
    for case in ET.parse(path).getroot().iter("testcase"):
        module, name = case.get("classname", ""), case.get("name", "").split("[")[0]
        outcome = found.setdefault(module, {}).setdefault(name, Outcome())
        problem = next((child for child in case if child.tag in {"failure", "error", "skipped"}), None)
        outcome.results["passed" if problem is None else "failed" if problem.tag != "skipped" else "skipped"] += 1
        if problem is not None and problem.tag == "skipped":
            outcome.skipped = problem.get("message", "").partition("\n")[0]
        elif problem is not None:
            outcome.failures.append(f"{problem.get('message', '')}\n{problem.text or ''}".strip())
        for recorded in case.iter("property"):
            outcome.figures[recorded.get("name", "")] = recorded.get("value", "")
    return found


def read_known(path: Path) -> list[KnownFailure]:
    known = [KnownFailure(**entry) for entry in tomllib.loads(path.read_text()).get("failure", [])]
    for each in known:
        if not (each.message.strip() and each.reason.strip()):
            raise RefusedError(f"{path.name}: {each.test} needs both a message and a reason")
    return known


def reasons(test: str, outcome: Outcome, known: list[KnownFailure]) -> Iterator[str | None]:
    """Why each of its failures is one, or None where nobody knows."""
    for failure in outcome.failures:
        yield next((each.reason for each in known if each.test == test and each.message in failure), None)


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


def render(results: Results, run: Run, known: list[KnownFailure]) -> str:
    """The document of a run, unless there is something in it that must not be published."""
    known = [each for each in known if each.commit == run.commit]
    refuse(results, run, known)
    total = {
        kind: sum(outcome.results[kind] for tests in results.values() for outcome in tests.values())
        for kind in ("passed", "failed", "skipped")
    }
    facts = {**run.facts, "Tests": ", ".join(f"{count} {kind}" for kind, count in total.items() if count)}
    lines = [f"# Compatibility of commit {run.commit}, as of {run.date}", ""]
    lines += ["Written by `make compat` from one run. Do not edit: run it again.", ""]
    lines += ["| | |", "|---|---|", *(f"| {name} | {cell(value)} |" for name, value in facts.items())]
    for module, tests in results.items():
        lines += ["", f"## {heading(module)}", "", "| | runs | |", "|---|---|---|"]
        for name, outcome in tests.items():
            runs = ", ".join(f"{count} {kind}" for kind, count in outcome.results.items())
            notes = [f"{key}: {value}" for key, value in outcome.figures.items()]
            notes += dict.fromkeys(reason for reason in reasons(f"{module}::{name}", outcome, known) if reason)
            notes += [outcome.skipped] if outcome.skipped else []
            lines.append(f"| {cell(sentence(name))} | {runs} | {cell('; '.join(notes))} |")
    return "\n".join(lines) + "\n"


def refuse(results: Results, run: Run, known: list[KnownFailure]) -> None:
    if not run.is_clean:
        raise RefusedError("the tree had changes that are in no commit, so that nobody could make this run again")
    if not results:
        raise RefusedError("the run has no results")
    unexplained = [
        f"{module}::{name}: {failure.partition(chr(10))[0] or 'it failed without a word'}"
        for module, tests in results.items()
        for name, outcome in tests.items()
        for failure, reason in zip(outcome.failures, reasons(f"{module}::{name}", outcome, known), strict=True)
        if reason is None
    ]
    if unexplained:
        where = KNOWN_FAILURES.relative_to(REPOSITORY)
        raise RefusedError(f"{len(unexplained)} failed, and {where} has no reason:\n  " + "\n  ".join(unexplained))


def version_of(*command: str) -> str:
    """The number that a program gives as its version."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"\d+(\.\d+)+", done.stdout)
    return found[0] if found else "unknown"


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout.strip()


def is_clean() -> bool:
    """Whether the tree is a commit, but for the document itself."""
    return not git("status", "--porcelain", "--", ".", f":!{DOCUMENT.relative_to(REPOSITORY)}")


def current_run() -> Run:
    facts = {
        "Tidelog": importlib.metadata.version("tidelog"),
        "Kernels": kernel_choice.twin,
        "Apache Kafka": KAFKA_VERSION,
        "Java": ApacheKafka.installed().java_version(),
        "kcat": version_of("kcat", "-V"),
        "Go": version_of("go", "version"),
        "Python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in ORACLES},
        "Machine": f"{platform.system()} {platform.machine()}",
    }
    return Run(git("rev-parse", "--short=12", "HEAD"), is_clean(), datetime.now(UTC).date().isoformat(), facts)


def make_run() -> int:
    """The exit code of the tests."""
    try:
        run = current_run()
    except MissingProgramError as error:
        sys.exit(str(error))
    if not run.is_clean:
        print("the tree has changes that are in no commit: all tests run, and no document is written")
    RUN.unlink(missing_ok=True)
    code = run_tests()
    # 0: all passed; 1: some failed, which the document says. Anything else, and the run says nothing.
    if code not in {0, 1}:
        sys.exit(code)
    # A tree that was changed in the meantime is not what was run.
    same = is_clean() and git("rev-parse", "--short=12", "HEAD") == run.commit
    RUN.write_text(json.dumps({**asdict(run), "is_clean": run.is_clean and same}, indent=1) + "\n")
    return code


def publish() -> None:
    """The document of the last run."""
    try:
        run = Run(**json.loads(RUN.read_text()))
    except FileNotFoundError:
        raise RefusedError("no run was made here") from None
    DOCUMENT.write_text(render(read_results(RESULTS), run, read_known(KNOWN_FAILURES)))
    print(f"wrote {DOCUMENT.relative_to(REPOSITORY)}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs `make compat`, and writes docs/compatibility.md.")
    parser.add_argument("--publish", action="store_true", help="write the document of the last run, and run nothing")
    code = 0 if parser.parse_args().publish else make_run()
    try:
        publish()
    except RefusedError as error:
        sys.exit(f"{DOCUMENT.relative_to(REPOSITORY)} is not written: {error}")
    sys.exit(code)


if __name__ == "__main__":
    main()
