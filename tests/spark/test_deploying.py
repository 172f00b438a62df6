"""Deployments: what other machines cannot have is found before, and what is rendered is what its programs read."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.support.command_line import tidelog
from tidelog.spark.pipelines import Debezium, FromTopic, Json, Pipeline, Text, ToDatabase, ToFiles, ToTable, ToTopic
from tidelog.spark.pipelines.deploying.deploy_target import DeployError, DeployTarget, Kind, parse_target
from tidelog.spark.pipelines.deploying.deployment import IMAGE, MANIFESTS, SCRIPT, UNIT, deployment_of
from tidelog.spark.pipelines.deploying.image_file import needed_extras
from tidelog.spark.pipelines.deploying.kubernetes_files import KubernetesSettings, kubernetes_name
from tidelog.spark.pipelines.deploying.placement import placement_problems, references_of
from tidelog.spark.pipelines.deploying.yaml_text import documents
from tidelog.spark.pipelines.pipeline_file import PipelineFile

SETTINGS = KubernetesSettings("shop/pipelines:1", "shop", 3, "2g", "1500m")
PASSWORDS = {
    "security.protocol": "SASL_SSL",
    "sasl.username": "shop",
    "sasl.password": "${env:KAFKA_PASSWORD}",
    "ssl.truststore.location": "/run/tls/ca.pem",
    "ssl.keystore.key": "${directory:/run/tls:client.key}",
}
K8S = parse_target("k8s://https://k8s.example:6443")


def elsewhere(**fields: Any) -> Pipeline:
    """One that other machines can run."""
    given: dict[str, Any] = {
        "name": "Paid orders",
        "source": FromTopic("orders", Json("id string")),
        "sink": ToTopic("paid"),
        "bootstrap": "kafka-1:9092",
        "checkpoint": "s3a://shop/checkpoints/paid",
        "kafka": PASSWORDS,
    }
    return Pipeline(**(given | fields))


def file_of(*pipelines: Pipeline) -> PipelineFile:
    return PipelineFile(Path("/jobs/paid.py"), pipelines, [])


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("local", DeployTarget(Kind.LOCAL, "local[*]")),
        ("local[2]", DeployTarget(Kind.LOCAL, "local[2]")),
        ("spark://a:7077,b:7077", DeployTarget(Kind.STANDALONE, "spark://a:7077,b:7077")),
        ("k8s://https://k8s.example:6443/", K8S),
        ("sc://spark:15002", DeployTarget(Kind.CONNECT, "sc://spark:15002")),
        ("yarn", DeployTarget(Kind.YARN, "yarn")),
    ],
)
def test_a_target_is_what_spark_calls_it(text: str, target: DeployTarget) -> None:
    assert parse_target(text) == target


@pytest.mark.parametrize(
    "text", ["", "mesos://a:1", "spark://a", "k8s://", "sc://", "sc://spark:x", "sc://s;token=t", "local[x]"]
)
def test_what_is_no_target_is_refused(text: str) -> None:
    with pytest.raises(DeployError):
        parse_target(text)


def test_what_other_machines_do_not_have_is_found_all_at_once() -> None:
    pipeline = elsewhere(
        checkpoint=None,
        staging="staged",
        bootstrap="127.0.0.1:9092",
        kafka={**PASSWORDS, "sasl.password": "tell-nobody"},
        sink=[ToTable("lake/paid", format="delta"), ToFiles("/mnt/raw"), ToDatabase("sqlite:///shop.db", table="paid")],
    )

    problems = placement_problems(file_of(pipeline), K8S, ["/mnt"])

    assert [each.removeprefix("Paid orders: ").split(" ")[:3] for each in problems] == [
        ["sqlite:///shop.db", "is", "a"],
        ["the", "checkpoint", "is"],
        ["staging", "is", "at"],
        ["the", "table", "paid"],
        ["the", "cluster", "at"],
        ["sasl.password", "is", "in"],
    ]
    assert not any("tell-nobody" in each for each in problems)
    assert placement_problems(file_of(pipeline), parse_target("local"), []) == []
    assert placement_problems(file_of(elsewhere()), K8S, []) == []


def test_yarn_is_given_no_secret_by_a_variable() -> None:
    problems = placement_problems(file_of(elsewhere()), parse_target("yarn"), [])
    assert len(problems) == 1
    assert "${env:KAFKA_PASSWORD} would be in the command that YARN shows" in problems[0]


def test_secrets_are_found_wherever_a_pipeline_refers_to_them() -> None:
    pipeline = elsewhere(
        source=FromTopic(
            "orders", Text(), options={"kafka.ssl.key.password": "${file:/run/secrets/kafka.properties:key}"}
        ),
        sink=ToDatabase("postgresql://shop:${env:DB_PASSWORD}@db/shop", table="paid"),
        storage={"AWS_SECRET_ACCESS_KEY": "${env:AWS_SECRET_ACCESS_KEY}"},
    )

    found = references_of([pipeline])

    assert found.variables == ["AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "KAFKA_PASSWORD"]
    assert (found.files, found.directories) == (["/run/secrets/kafka.properties"], ["/run/tls"])


def test_manifests_are_those_of_kubernetes_own_schema_and_hold_no_secret() -> None:
    pipelines = [elsewhere(), elsewhere(name="refunds", checkpoint="s3a://shop/checkpoints/refunds")]
    deployment = deployment_of(file_of(*pipelines), K8S, SETTINGS, base_image="spark:4", out=Path("/out"))

    found = list(yaml.safe_load_all(deployment.files[MANIFESTS]))
    for each in found:
        kubernetes_validate.validate(each, "1.30", strict=True)

    assert [each["kind"] for each in found] == [
        *("ServiceAccount", "Role", "RoleBinding", "Service", "Secret", "Secret", "Deployment")
    ]
    assert found[4]["stringData"] == {"KAFKA_PASSWORD": ""}
    driver = found[-1]["spec"]["template"]["spec"]
    (container,) = driver["containers"]
    arguments = container["args"]
    assert arguments[:3] == ["pipeline", "run", "/opt/pipelines/paid.py"]
    assert [arguments[index + 1] for index, each in enumerate(arguments) if each == "--only"] == [
        "Paid orders",
        "refunds",
    ]
    assert container["volumeMounts"] == [{"name": "files-0", "mountPath": "/run/tls", "readOnly": True}]
    assert found[-1]["spec"]["strategy"] == {"type": "Recreate"}
    name = found[-1]["metadata"]["name"]
    assert f"spark.kubernetes.executor.secretKeyRef.KAFKA_PASSWORD={name}:KAFKA_PASSWORD" in arguments


def test_a_name_for_kubernetes_has_what_its_names_may_have() -> None:
    assert kubernetes_name(["Paid orders", "refunds_2"]) == "tidelog-paid-orders-refunds-2"
    assert len(kubernetes_name(["x" * 100])) == 63


@pytest.mark.parametrize(
    "value",
    [
        {"a": {"b": ["no", "1e3", True, 7], "c": {}}, "d": [{"e": "x", "f": ["y"]}, {"g": "z"}]},
        {"text": "line one\n  indented: {not: yaml}\n\nlast\n", "tail": "no end\nof line", "odd": ' "quoted" \\ #: é'},
        [["nested"], []],
    ],
)
def test_what_is_written_is_read_again_as_it_was(value: Any) -> None:
    assert list(yaml.safe_load_all(documents([value, value]))) == [value, value]


def test_an_image_has_the_extras_that_the_pipelines_need() -> None:
    delta = elsewhere(sink=[ToTable("s3a://b/t", format="delta"), ToDatabase("postgresql://u@h/d", table="t")])
    deployment = deployment_of(file_of(delta), K8S, SETTINGS, base_image="spark:4", out=Path("/out"))

    assert needed_extras([delta]) == ["delta", "postgresql", "spark"]
    events = FromTopic("orders", Debezium("id int", registry="http://registry:8081"))
    assert needed_extras([elsewhere(source=events)]) == ["avro", "spark"]
    assert needed_extras([elsewhere(source=FromTopic("orders", Debezium("id int")))]) == ["spark"]
    assert "'tidelog[delta,postgresql,spark]==" in deployment.files[IMAGE]
    assert 'COPY ["paid.py", "/opt/pipelines/paid.py"]' in deployment.files[IMAGE]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_a_service_is_one_that_systemd_takes(tmp_path: Path) -> None:
    pipeline = elsewhere(name="paid")
    deployment = deployment_of(file_of(pipeline), parse_target("local"), SETTINGS, base_image="x", out=tmp_path)
    unit = tmp_path / UNIT
    unit.write_text(deployment.files[UNIT].replace("/jobs", str(tmp_path)))

    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False)

    assert [line for line in done.stderr.splitlines() if str(unit) in line or UNIT in line] == []
    assert "EnvironmentFile=/etc/tidelog/paid.env" in deployment.files[UNIT]


def test_yarns_script_is_shell_and_says_that_it_was_not_validated() -> None:
    pipeline = elsewhere(kafka={}, name="it's paid")
    deployment = deployment_of(file_of(pipeline), parse_target("yarn"), SETTINGS, base_image="x", out=Path("/out dir"))
    script = deployment.files[SCRIPT]

    subprocess.run(["sh", "-n"], input=script, text=True, check=True)
    assert "Not validated" in script
    assert "'/out dir/tidelog.zip'" in script


FILE = """
from tidelog.spark.pipelines import FromTopic, Pipeline, Text, ToTopic

pipeline = Pipeline(name="copied", source=FromTopic("orders", Text()), sink=ToTopic("copy"), bootstrap="kafka:9092",
                    checkpoint={checkpoint!r}, spark={{"spark.ui.enabled": "false"}})
"""


def test_a_dry_run_shows_everything_and_writes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "jobs.py"
    file.write_text(FILE.format(checkpoint="s3a://b/c"))
    out = tmp_path / "deploy"

    shown = tidelog("pipeline", "deploy", file, "--target", "k8s://https://h:6443", "--out", out, "--dry-run", "--json")

    assert shown.exit_code == 0, shown.stderr
    files = [json.loads(line) for line in shown.stdout.splitlines()]
    assert [Path(each["file"]).name for each in files] == [IMAGE, MANIFESTS]
    assert not out.exists()


def test_on_a_server_of_spark_connect_a_unit_follows_the_queries_and_workers_get_no_package(tmp_path: Path) -> None:
    file = tmp_path / "jobs.py"
    file.write_text(FILE.format(checkpoint="s3a://b/c"))

    shown = tidelog(
        "pipeline", "deploy", file, "--target", "sc://h:15002", "--out", tmp_path / "d", "--dry-run", "--json"
    )

    assert shown.exit_code == 0, shown.stderr
    (unit,) = [json.loads(line) for line in shown.stdout.splitlines()]
    assert Path(unit["file"]).name == UNIT
    assert "--master sc://h:15002" in unit["text"]
    assert "--package" not in unit["text"]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--target", "sc://h:15002"], "copied: the checkpoint is at"),
        (["--target", "sc://h:15002/;token=t"], "a token would be in files: give sc://HOST:PORT alone"),
        (["--target", "k8s://https://h", "--executor-memory", "lots"], "'lots' is no size of memory"),
        (["--target", "k8s://https://h", "--namespace", "No"], "'No' is no namespace"),
        (["--target", "yarn"], "copied: the checkpoint is at"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(tmp_path: Path, options: list[str], sentence: str) -> None:
    file = tmp_path / "jobs.py"
    file.write_text(FILE.format(checkpoint="here"))

    done = tidelog("pipeline", "deploy", file, "--out", tmp_path / "deploy", *options)

    assert done.exit_code == 2
    assert sentence in done.stderr
    assert not (tmp_path / "deploy").exists()
