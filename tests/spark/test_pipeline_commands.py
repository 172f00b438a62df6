"""`tidelog pipeline`: what people see and get back, as far as that needs no Spark; and a run that is ended by Ctrl-C."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import textwrap
import time
import zipfile
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.support.command_line import json_lines, tidelog
from tests.support.command_process import command, environment
from tidelog import Producer
from tidelog.spark.pipelines import archive
from tidelog.testing import EmbeddedCluster

HEAD = "from tidelog.spark.pipelines import FromTopic, Json, Pipeline, ToTable, ToTopic\n"
DEADLINE_S = 240
BOUND = "maxOffsetsPerTrigger"
WARNINGS = (
    f"a: the sink a merges 5000000 changes a batch at most, and nothing bounds a batch: give the source the option {BOUND}",
    f"b: the sink b merges 5000000 changes a batch at most, and a batch may have 6000000 records: lower {BOUND} of the source",
)


def written(directory: Path, text: str) -> Path:
    path = directory / "jobs.py"
    path.write_text(HEAD + textwrap.dedent(text))
    return path


def test_validate_tells_all_mistakes_and_exits_with_2(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        a = Pipeline(
            name="a",
            source=FromTopic("t", Json("id bigin"), options={"startingOffset": "x", "failOnDataLoss": "x", "subscribe": "y"}),
            sink=ToTopic("t", encode="xml", kei="id", options={"kafka.acks": "7"}),
            trigger="x",
            output_mode=5,
        )
        b = Pipeline(name="b", source=FromTopic("t"), sink=ToTable("tables/t"))
        """,
    )

    result = tidelog("pipeline", "validate", path, "--without-spark")
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        "tidelog pipeline: a: output_mode is 5; it is text",
        "tidelog pipeline: a: source: the schema of Json is wrong: there is no type bigin; did you mean bigint?",
        "tidelog pipeline: a: source: the option subscribe is said by the topic: leave it out",
        "tidelog pipeline: a: source: there is no option startingoffset; did you mean startingOffsets?",
        "tidelog pipeline: a: source: failOnDataLoss is 'x'; it is true or false",
        "tidelog pipeline: a: sink: ToTopic has no argument kei; did you mean key? (line 6)",
        "tidelog pipeline: a: sink: encode is 'xml'; it can be json or columns",
        "tidelog pipeline: a: sink: an option that begins with kafka. is wrong: acks is '7'; it can be 'all' (or -1), 1 or 0",
        "tidelog pipeline: a: sink writes to t, which the pipeline reads",
        "tidelog pipeline: a: trigger is 'x'; it is a time such as '10 seconds', or available_now",
    ]
    listed = json_lines(tidelog("pipeline", "validate", path, "--without-spark", "--json"))
    assert [each["problem"][:2] for each in listed] == ["a:"] * 10

    fine = tidelog("pipeline", "validate", path, "--without-spark", "--only", "b")
    assert (fine.exit_code, fine.stdout) == (0, "nothing is wrong with b, as far as that shows without Spark\n")
    run = tidelog("pipeline", "run", path)
    assert (run.exit_code, run.stderr) == (2, result.stderr)


def test_validate_warns_of_merges_that_nothing_bounds(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        def merged(name, bounds, **more):
            source = FromTopic("orders", Json("id bigint"), options=bounds)
            return Pipeline(name=name, source=source, sink=ToTable("t/" + name, format="delta", merge_on=["id"], **more))

        a = merged("a", {})
        b = merged("b", {"MaxOffsetsPerTrigger": 6_000_000})
        c = merged("c", {"maxOffsetsPerTrigger": 1000})
        d = merged("d", {"maxOffsetsPerTrigger": 6_000_000}, options={"changes_max": 6_000_000})
        """,
    )

    result = tidelog("pipeline", "validate", path, "--without-spark")
    listed = json_lines(tidelog("pipeline", "validate", path, "--without-spark", "--json"))

    assert (result.exit_code, listed) == (0, [{"warning": each} for each in WARNINGS])
    assert result.stderr.splitlines() == [f"tidelog pipeline: warning: {each}" for each in WARNINGS]
    written(
        tmp_path,
        """
        sink = ToTable("t", format="delta", merge_on=["id"], options={"changes_max": "x"})
        a = Pipeline(name="a", source=FromTopic("orders", Json("id bigint")), sink=sink)
        """,
    )
    wrong = tidelog("pipeline", "validate", path, "--without-spark")
    assert wrong.stderr == "tidelog pipeline: a: sink: changes_max is 'x', expected a number from 1 to 1000000000\n"


def test_a_file_that_cannot_be_loaded_is_one_sentence_for_every_command(tmp_path: Path) -> None:
    path = written(tmp_path, "Pipeline(name=a)")

    for name in ("run", "validate", "status"):
        result = tidelog("pipeline", name, path)
        assert result.exit_code == 2
        assert len(result.stderr.splitlines()) == 1
        assert "jobs.py, line 2: NameError: " in result.stderr
    assert tidelog("pipeline", "run", tmp_path / "none.py").stderr.endswith("none.py\n")
    assert "is not a setting" in tidelog("pipeline", "run", path, "--conf", "spark").stderr


def test_validate_tells_what_it_knows_before_spark_starts_and_shows_nothing_of_sparks_log(tmp_path: Path) -> None:
    # A wrong type, wrong SQL and a wrong key: each once hid the others, behind half a minute and eight lines of Spark's log.
    path = written(
        tmp_path,
        """
        a = Pipeline(
            name="a",
            source=FromTopic("orders", Json("id bigin, price double")),
            transform="SELEC id FROM orders",
            sink=ToTopic("out", key="id +"),
        )
        """,
    )
    known = "tidelog pipeline: a: source: the schema of Json is wrong: there is no type bigin; did you mean bigint?"
    began_s = time.monotonic()
    with subprocess.Popen(
        command("pipeline", "validate", path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        first_s = time.monotonic() - began_s
        output, rest = process.communicate(timeout=DEADLINE_S)

    assert first == f"{known}\n"
    # It takes less than a second of a machine that has nothing else to do; Spark takes ten.
    assert first_s < min(20, (time.monotonic() - began_s) / 2)
    assert (process.returncode, output) == (2, "")
    assert rest.splitlines() == [
        "tidelog pipeline: a: transform: Syntax error at or near 'SELEC'.",
        "tidelog pipeline: a: sink: Syntax error at or near end of input.",
    ]


def test_a_spark_that_does_not_start_says_why_in_one_sentence(tmp_path: Path) -> None:
    path = written(tmp_path, 'a = Pipeline(name="a", source=FromTopic("t"), sink=ToTable("t"), master="lokal[2]")')

    result = subprocess.run(
        command("pipeline", "run", path),
        capture_output=True,
        text=True,
        check=False,
        env=environment(),
        timeout=DEADLINE_S,
    )

    assert (result.returncode, result.stdout) == (1, "starting Spark on lokal[2]\n")
    assert result.stderr == (
        "tidelog pipeline: Spark does not start: Master must either be yarn or start with spark, k8s, or local; "
        "--verbose shows what it logs\n"
    )


def test_a_metrics_port_that_is_taken_is_told_before_spark_starts(tmp_path: Path) -> None:
    path = written(tmp_path, 'p = Pipeline(name="p", source=FromTopic("t"), sink=ToTable("tables/t"))')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        run = tidelog("pipeline", "run", path, "--metrics-port", taken.getsockname()[1])

    assert (run.exit_code, run.stdout) == (1, "")
    assert run.stderr.startswith("tidelog pipeline: cannot listen on 127.0.0.1:")


def test_a_metrics_file_that_cannot_be_written_is_told_before_spark_starts(tmp_path: Path) -> None:
    path = written(tmp_path, 'p = Pipeline(name="p", source=FromTopic("t"), sink=ToTable("tables/t"))')

    for place, why in ((tmp_path / "none" / "m.prom", "No such file or directory"), (tmp_path, "Is a directory")):
        run = tidelog("pipeline", "run", path, "--metrics-file", place)
        assert (run.exit_code, run.stdout) == (2, "")
        assert run.stderr == f"tidelog pipeline: --metrics-file {place} cannot be written: {why}\n"


def test_wrong_arguments_are_told_by_every_command(tmp_path: Path) -> None:
    path = written(tmp_path, 'a = Pipeline(name="a", sorce=FromTopic(5), spark=[])')
    sentences = [
        "tidelog pipeline: a: Pipeline has no argument sorce; did you mean source? (line 2)",
        "tidelog pipeline: a: Pipeline needs source= (line 2)",
        "tidelog pipeline: a: Pipeline needs sink= (line 2)",
        'tidelog pipeline: a: spark is []; it is a dictionary, as in {"name": "value"}',
    ]

    for arguments in (("run",), ("validate", "--without-spark"), ("status",), ("run", "--bootstrap", "elsewhere:9092")):
        result = tidelog("pipeline", arguments[0], path, *arguments[1:])
        assert (result.exit_code, result.stderr.splitlines()) == (2, sentences), arguments


def test_status_of_what_never_ran_and_of_what_has_died(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    path = written(
        tmp_path, 'a = Pipeline(name="a", source=FromTopic("t", Json("x int"), dead_letters="d"), sink=ToTable("t"))'
    )
    arguments = ("pipeline", "status", path, "--bootstrap", cluster.bootstrap_servers)

    rows = json_lines(tidelog(*arguments, "--json"))
    assert [(row["query"], row["state"], row["lag"]) for row in rows] == [
        ("a", "never run", None),
        ("a.dead-letters", "never run", None),
    ]

    left = {"query": "a", "query_id": "q", "run_id": "r", "batch_id": 7, "batch_rows": 5, "error": "it fell over"}
    place = tmp_path / "checkpoints" / "a" / "progress.json"
    place.parent.mkdir(parents=True)
    place.write_text(json.dumps({"pipeline": "a", "host": socket.gethostname(), "pid": 2**22 + 1, "queries": [left]}))
    result = tidelog(*arguments)
    assert result.exit_code == 0
    assert [line.split()[:2] for line in result.stdout.splitlines()] == [
        ["QUERY", "STATE"],
        ["a", "died"],
        ["a.dead-letters", "never"],
    ]
    assert result.stderr == "tidelog pipeline: a: it fell over\n"

    nowhere = tidelog("pipeline", "status", path, "--bootstrap", "127.0.0.1:1")
    assert nowhere.exit_code == 1
    assert "died" in nowhere.stdout, "what is known without the cluster is shown all the same"


def test_recover_says_what_it_found(cluster: EmbeddedCluster) -> None:
    unknown = tidelog("pipeline", "recover", "nobody", "--bootstrap", cluster.bootstrap_servers)
    assert unknown.exit_code == 1
    assert unknown.stderr == "tidelog pipeline: nothing is known of a query nobody on this cluster\n"

    with Producer(
        bootstrap_servers=cluster.bootstrap_servers, transactional_id="tidelog-spark.q7.run.worker.0"
    ) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        producer.send("left-open", b"x").result(30)
        found = tidelog("pipeline", "recover", "q7", "--bootstrap", cluster.bootstrap_servers, "--json")
        assert found.exit_code == 0, found.stderr
        (row,) = json_lines(found)
        assert (row["query"], row["committed"], row["lost"]) == ("q7", [], [])
        assert row["aborted"] == ["tidelog-spark.q7.run.worker.0"]
    again = tidelog("pipeline", "recover", "q7", "--bootstrap", cluster.bootstrap_servers)
    assert (again.exit_code, again.stdout) == (0, "q7: no batch counts yet; 0 transactions are committed, 0 aborted\n")
    nowhere = tidelog("pipeline", "recover", "q7", "--bootstrap", "127.0.0.1:1")
    assert nowhere.exit_code == 1
    assert len(nowhere.stderr.splitlines()) == 1


def test_a_package_has_tidelog_and_what_is_asked_for_with_what_that_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two small packages, one of which needs the other; Arrow and others are left out, for the time that they take."""
    site = tmp_path / "site"
    for name, requires in (("demo_one", "demo-two>=1 ; python_version >= '3'"), ("demo_two", "absent ; extra == 'x'")):
        (site / name / "tests").mkdir(parents=True)
        (site / name / "__init__.py").write_text("")
        (site / name / "tests" / "big.py").write_text("")
        meta = site / f"{name}-1.0.dist-info"
        meta.mkdir()
        (meta / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: {requires}\n"
        )
        files = [f"{name}/__init__.py", f"{name}/tests/big.py", "../../bin/demo", f"{meta.name}/METADATA"]
        (meta / "RECORD").write_text("".join(f"{file},,\n" for file in files))
    monkeypatch.syspath_prepend(str(site))
    everything = archive._requirements
    monkeypatch.setattr(
        archive, "_requirements", lambda name, extras: [] if name == "tidelog" else everything(name, extras)
    )

    result = tidelog("pipeline", "package", tmp_path / "out" / "p.zip", "--with", "demo-one", "--json")

    assert result.exit_code == 0, result.stderr
    (row,) = json_lines(result)
    assert [each.split()[0] for each in row["packages"]] == ["tidelog", "demo-one", "demo-two"]
    names = set(zipfile.ZipFile(tmp_path / "out" / "p.zip").namelist())
    assert {"tidelog/spark/source/source.py", "tidelog/py.typed", "pyspark_tidelog/__init__.py"} <= names
    assert {"demo_one/__init__.py", "demo_two/__init__.py", "demo_two-1.0.dist-info/METADATA"} <= names
    assert not [name for name in names if "big.py" in name or name.endswith(".pyc") or ".." in name]
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["p.zip"]


def test_what_cannot_be_packed_is_one_sentence(tmp_path: Path) -> None:
    assert "has to end with .zip" in tidelog("pipeline", "package", tmp_path / "p.tar").stderr
    missing = tidelog("pipeline", "package", tmp_path / "p.zip", "--with", "no-such-thing")
    assert (missing.exit_code, missing.stderr) == (
        1,
        "tidelog pipeline: no-such-thing is not installed here, and is to be packed: pip install no-such-thing\n",
    )
    assert list(tmp_path.iterdir()) == []


def test_everything_that_tidelog_needs_is_found_to_be_packed() -> None:
    found = archive._closure(archive._requirements("tidelog", {"arrow"}), [])

    assert {"pyarrow", "msgspec", "crc32c", "lz4", "xxhash"} <= found.keys()
    assert not {"pyspark", "py4j", "tidelog"} & found.keys()


def test_ctrl_c_ends_a_run_after_its_batch(cluster: EmbeddedCluster, tmp_path: Path) -> None:
    cluster.create_topic("ctrl-c", partitions=1)
    path = written(
        tmp_path,
        """
        pipeline = Pipeline(
            name="ctrl-c",
            source=FromTopic("ctrl-c", Json("id int"), name="t"),
            sink=ToTable("tables/t", format="json"),
            master="local[2]",
            spark={"spark.ui.enabled": False},
        )
        """,
    )

    def send(number: int) -> None:
        with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            producer.send("ctrl-c", b'{"id": %d}' % number).result(30)

    send(1)
    said, kept = tmp_path / "stderr", tmp_path / "kept.prom"
    with said.open("w") as errors:
        run = subprocess.Popen(
            [
                *command("pipeline", "run", path, "--bootstrap", cluster.bootstrap_servers),
                *("--metrics-port", "0", "--metrics-file", str(kept)),
            ],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=environment(),
        )
    assert run.stdout is not None
    try:
        lines: list[str] = []
        status: dict[str, object] = {}
        metrics = ""
        for line in run.stdout:
            lines.append(line.strip())
            if "running, batch 0" in line:
                send(2)
            if "running, batch 1" in line:
                (status,) = json_lines(
                    tidelog("pipeline", "status", path, "--bootstrap", cluster.bootstrap_servers, "--json")
                )
                with urlopen(lines[0].removeprefix("metrics are at "), timeout=30) as answer:
                    metrics = answer.read().decode()
                run.send_signal(signal.SIGINT)
        assert run.wait(DEADLINE_S) == 0
    finally:
        run.kill()
        run.wait()
        run.stdout.close()

    assert said.read_text() == "", "what Spark logs is for --verbose"
    assert lines[1] == "starting Spark on local[2]"
    assert 'tidelog_pipeline_rows_total{pipeline="ctrl-c",query="ctrl-c"} 2\n' in metrics
    assert 'tidelog_pipeline_running{pipeline="ctrl-c",query="ctrl-c"} 1\n' in metrics
    after_all = kept.read_text()
    assert 'tidelog_pipeline_rows_total{pipeline="ctrl-c",query="ctrl-c"} 2\n' in after_all
    assert 'tidelog_pipeline_running{pipeline="ctrl-c",query="ctrl-c"} 0\n' in after_all
    assert 'tidelog_pipeline_stuck{pipeline="ctrl-c",query="ctrl-c"} 0\n' in after_all
    assert lines[-2:] == ["stopping after the batches that are under way", lines[-3].replace("running", "stopped")]
    assert status["state"] == "running"
    rows = [
        json.loads(line)["id"]
        for file in (tmp_path / "tables" / "t").glob("*.json")
        for line in file.read_text().splitlines()
    ]
    assert sorted(rows) == [1, 2]
    (after,) = json_lines(tidelog("pipeline", "status", path, "--bootstrap", cluster.bootstrap_servers, "--json"))
    assert (after["state"], after["run_rows"], after["lag"]) == ("stopped", 2, 0)
