"""Pipelines of a file made ready for a target: the files that it takes, and what is left to do by hand. Pure."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.spark.pipelines.deploying.deploy_target import DeployError, DeployTarget, Kind
from tidelog.spark.pipelines.deploying.image_file import dockerfile
from tidelog.spark.pipelines.deploying.kubernetes_files import KubernetesSettings, manifests
from tidelog.spark.pipelines.deploying.placement import References, references_of
from tidelog.spark.pipelines.deploying.service_unit import service_unit
from tidelog.spark.pipelines.deploying.submit_script import submit_script
from tidelog.spark.pipelines.pipeline_file import PipelineFile

PACKAGE = "tidelog.zip"
UNIT, MANIFESTS, IMAGE, SCRIPT = "tidelog-pipelines.service", "kubernetes.yaml", "Dockerfile", "submit.sh"


@dataclass(frozen=True, slots=True)
class Deployment:
    files: dict[str, str]
    """By name, in the directory of the deployment."""
    needs_package: bool
    """Whether workers are to get the archive that `tidelog pipeline package` builds."""
    steps: Sequence[str]
    """What is to be done with the files, each a line for a person."""
    references: References


def deployment_of(
    file: PipelineFile, target: DeployTarget, settings: KubernetesSettings, *, base_image: str, out: Path
) -> Deployment:
    """What `placement_problems` finds is asked before."""
    names = [each.name for each in file.pipelines]
    references = references_of(file.pipelines)
    match target.kind:
        case Kind.LOCAL | Kind.STANDALONE | Kind.CONNECT:
            package = ["--package", str(out / PACKAGE)] if target.kind is Kind.STANDALONE else []
            command = [
                sys.executable,
                "-m",
                "tidelog.cli",
                "pipeline",
                "run",
                str(file.path),
                "--master",
                target.master,
            ]
            command += [*package, *(text for each in names for text in ("--only", each))]
            unit = service_unit(command, str(file.directory), names, references)
            steps = [
                f"as a service: cp {shlex.quote(str(out / UNIT))} /etc/systemd/system/ && systemctl enable --now {UNIT}"
            ]
            return Deployment({UNIT: unit}, bool(package), steps, references)
        case Kind.YARN:
            script = submit_script(str(file.path), names, str(out / PACKAGE))
            return Deployment({SCRIPT: script}, True, [f"sh {shlex.quote(str(out / SCRIPT))}"], references)
        case Kind.KUBERNETES:
            copied = _copied(file)
            image = dockerfile(file.pipelines, copied, base_image)
            found = manifests(file.path.name, names, references, settings)
            steps = [
                f"docker build -f {shlex.quote(str(out / IMAGE))} -t {settings.image} {shlex.quote(str(file.directory))}",
                f"docker push {settings.image}",
                f"fill in the Secrets of {out / MANIFESTS}" if _has_any(references) else "",
                f"kubectl apply -f {shlex.quote(str(out / MANIFESTS))}",
            ]
            return Deployment({IMAGE: image, MANIFESTS: found}, False, [each for each in steps if each], references)


def _copied(file: PipelineFile) -> list[str]:
    """The file and the modules that it imports from beside it, relative to its directory."""
    found = [file.path]
    for module in file.modules:
        place = getattr(module, "__file__", None)
        if place is not None and Path(place) not in found:
            found.append(Path(place))
    try:
        return [each.relative_to(file.directory).as_posix() for each in found]
    except ValueError:
        raise DeployError(
            f"a module of {file.path} is not beside it: an image takes what is in its directory"
        ) from None


def _has_any(references: References) -> bool:
    return bool(references.variables or references.files or references.directories)
