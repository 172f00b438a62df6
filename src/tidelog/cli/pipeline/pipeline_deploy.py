"""`tidelog pipeline deploy`: pipelines checked for a target, and run there or rendered for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tidelog.cli.admin_session import EXIT_REFUSED, EXIT_WRONG_QUESTION, complain, print_json, print_line
from tidelog.cli.pipeline.pipeline import COMMAND, RunOptions, build_package, load, run_pipelines
from tidelog.spark.pipelines.deploying.deploy_target import DeployError, DeployTarget, Kind, parse_target
from tidelog.spark.pipelines.deploying.deployment import MANIFESTS, PACKAGE, Deployment, deployment_of
from tidelog.spark.pipelines.deploying.kubernetes_files import KubernetesSettings
from tidelog.spark.pipelines.deploying.placement import placement_problems
from tidelog.spark.pipelines.errors import PipelineFileError
from tidelog.spark.pipelines.validation import problems_of


@dataclass(frozen=True, slots=True)
class DeployOptions:
    file: str
    only: Sequence[str]
    target: str
    out: str
    shared: Sequence[str]
    settings: KubernetesSettings
    base_image: str | None
    bootstrap: str | None
    is_dry_run: bool
    until_caught_up: bool
    conf: Sequence[str]
    more: Sequence[str]
    as_json: bool


def deploy_pipelines(options: DeployOptions) -> int:
    """0 once they are where they are to be; where they run here, once they have ended."""
    try:
        target = parse_target(options.target)
        options.settings.check()
        file = load(options.file, options.only, options.bootstrap)
        problems = problems_of(file.pipelines) or placement_problems(
            file, target, [str(Path(each).absolute()) for each in options.shared]
        )
        for each in problems:
            complain(COMMAND, each, EXIT_WRONG_QUESTION)
        if problems:
            return EXIT_WRONG_QUESTION
        from tidelog.spark.pipelines.deploying.image_file import default_base  # noqa: PLC0415 - asks for the PySpark there is

        out = Path(options.out).absolute()
        base = options.base_image or default_base()
        deployment = deployment_of(file, target, options.settings, base_image=base, out=out)
    except (DeployError, PipelineFileError) as error:
        return complain(COMMAND, str(error), EXIT_WRONG_QUESTION)
    if options.is_dry_run:
        _show(deployment, target, out, as_json=options.as_json)
        return 0
    try:
        _write(deployment, out)
    except OSError as error:
        return complain(COMMAND, f"{out} cannot be written: {error.strerror or error}", EXIT_REFUSED)
    if deployment.needs_package:
        code = build_package(str(out / PACKAGE), options.more, as_json=options.as_json)
        if code:
            return code
    _tell(deployment, target, out, as_json=options.as_json)
    if not target.is_run_here:
        return 0
    return run_pipelines(
        RunOptions(
            options.file,
            options.only,
            options.until_caught_up,
            target.master,
            str(out / PACKAGE) if deployment.needs_package else None,
            options.conf,
            options.bootstrap,
            is_verbose=False,
            as_json=options.as_json,
        )
    )


def _write(deployment: Deployment, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    for name, text in deployment.files.items():
        (out / name).write_text(text, encoding="utf-8")


def _show(deployment: Deployment, target: DeployTarget, out: Path, *, as_json: bool) -> None:
    """Everything that would be written, to be read."""
    if as_json:
        print_json([{"file": str(out / name), "text": text} for name, text in deployment.files.items()])
        return
    for name, text in deployment.files.items():
        print_line(f"# {out / name}")
        print_line(text)
    _tell_steps(deployment, target)


def _tell(deployment: Deployment, target: DeployTarget, out: Path, *, as_json: bool) -> None:
    if as_json:
        print_json([{"file": str(out / name)} for name in deployment.files])
        return
    for name in deployment.files:
        print_line(f"wrote {out / name}")
    _tell_steps(deployment, target)


def _tell_steps(deployment: Deployment, target: DeployTarget) -> None:
    if target.kind is Kind.KUBERNETES:
        print_line(f"{MANIFESTS} follows Kubernetes' own schema; it was not run on a cluster")
    if target.kind is Kind.YARN:
        print_line("this was not validated: there was no Hadoop to run it on")
    references = deployment.references
    asked = [*references.variables, *references.files, *references.directories]
    if asked:
        print_line(f"secrets that have to be there: {', '.join(asked)}")
    for each in deployment.steps:
        print_line(f"then: {each}")
