"""What pipelines refer to outside of their file, and what of it other machines cannot have. Pure.

A directory of this machine is another one on each worker; 127.0.0.1 is the worker itself; a secret in a file goes wherever the
file goes. Each of these would be found by the first batch, in the log of some worker.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import NamedTuple

from tidelog.spark.pipelines.definition import Pipeline
from tidelog.spark.pipelines.deploying.deploy_target import DeployTarget, Kind
from tidelog.spark.pipelines.pipeline_file import PipelineFile, is_local
from tidelog.spark.pipelines.query_options import cluster_of, own_cluster
from tidelog.spark.pipelines.sinks import ToDatabase, ToFiles, ToTable, ToTopic
from tidelog.spark.secret_references import references

_SQLITE = "sqlite:///"
_SECRET = re.compile(r"password|secret|jaas|\.key$|token", re.IGNORECASE)
# Names that hold no secret, though they sound like it.
_NO_SECRET = re.compile(r"endpoint|mechanism|url|location|type|path|expire|alias", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class References:
    """Secrets that pipelines refer to, by where they are looked for."""

    variables: Sequence[str]
    files: Sequence[str]
    directories: Sequence[str]


class _Value(NamedTuple):
    name: str
    text: str


def references_of(pipelines: Iterable[Pipeline]) -> References:
    found: dict[str, dict[str, None]] = {"env": {}, "file": {}, "directory": {}}
    for pipeline in pipelines:
        for each in _values(pipeline, ""):
            for provider, path, key in references(each.text):
                found[provider][key if provider == "env" else path] = None
    return References(*(sorted(found[each]) for each in ("env", "file", "directory")))


def placement_problems(file: PipelineFile, target: DeployTarget, shared: Sequence[str]) -> list[str]:
    """Each a sentence. `shared` are directories that all machines have, the same for all."""
    if not target.has_other_machines:
        return []
    problems: list[str] = []
    for pipeline in file.pipelines:
        found = [*_places(file, pipeline, shared), *_clusters(pipeline), *_secrets(pipeline)]
        if target.kind is Kind.YARN:
            found += _variables(pipeline)
        problems += [f"{pipeline.name}: {each}" for each in dict.fromkeys(found)]
    return problems


def _places(file: PipelineFile, pipeline: Pipeline, shared: Sequence[str]) -> Iterator[str]:
    places = [("the checkpoint", file.checkpoint_of(pipeline), "checkpoint=")]
    if pipeline.staging is not None:
        places.append(("staging", file.beside(pipeline.staging), "staging="))
    for sink in pipeline.sinks:
        match sink:
            case ToTable() if sink.path is not None:
                places.append((f"the table {sink.label}", file.beside(sink.path), "its path"))
            case ToFiles():
                places.append((f"the sink {sink.label}", file.beside(sink.path), "its path"))
            case ToDatabase() if sink.url.startswith(_SQLITE):
                yield f"{sink.url} is a file of one machine: a database of several is a server"
            case _:
                pass
    for what, place, field in places:
        if is_local(place) and not any(_is_within(place, each) for each in shared):
            yield (
                f"{what} is at {place}, which other machines do not have: make {field} a URL such as s3a://BUCKET/..., or name "
                "the directory that all of them share with --shared"
            )


def _is_within(place: str, directory: str) -> bool:
    return f"{place}/".startswith(f"{directory.rstrip('/')}/")


def _clusters(pipeline: Pipeline) -> Iterator[str]:
    topics = [each for each in pipeline.sinks if isinstance(each, ToTopic)]
    asked = [each.bootstrap or own_cluster(pipeline) for each in pipeline.sources]
    asked += [cluster_of(pipeline, each) for each in topics]
    for bootstrap in asked:
        for server in bootstrap.split(","):
            host = server.strip().rpartition(":")[0].strip("[]")
            if _is_loopback(host):
                yield f"the cluster at {server.strip()} is each machine's own: give bootstrap= a name that all machines reach"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _secrets(pipeline: Pipeline) -> Iterator[str]:
    for each in _values(pipeline, ""):
        is_secret = _SECRET.search(each.name) and not _NO_SECRET.search(each.name)
        if is_secret and each.text and not any(references(each.text)):
            yield f"{each.name} is in the file, which is deployed: refer to it, as in ${{env:{_variable(each.name)}}}"


def _variables(pipeline: Pipeline) -> Iterator[str]:
    for each in references_of([pipeline]).variables:
        yield (
            f"${{env:{each}}} would be in the command that YARN shows to everybody: refer to a file that all nodes have, as in "
            "${file:/etc/tidelog/secrets.properties:NAME}"
        )


def _variable(name: str) -> str:
    return re.sub(r"\W+", "_", name).upper()


def _values(declared: object, name: str) -> Iterator[_Value]:
    """All texts of a declaration, by the names that they have there."""
    if isinstance(declared, str):
        yield _Value(name, declared)
    elif isinstance(declared, Mapping):
        for key, value in declared.items():
            yield from _values(value, str(key))
    elif isinstance(declared, list | tuple):
        for value in declared:
            yield from _values(value, name)
    elif is_dataclass(declared):
        for each in fields(declared):
            yield from _values(getattr(declared, each.name), each.name)
