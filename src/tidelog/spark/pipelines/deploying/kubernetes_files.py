"""Pipelines in Kubernetes: a driver that Kubernetes keeps running, and executors that the driver asks for. Pure.

    Deployment       the driver, one and never two: a restart ends the old one first
    Service          without an address of its own, by which executors reach the driver
    ServiceAccount, Role, RoleBinding   the driver makes and removes its executors, and nothing else
    Secret           variables and files that the pipelines refer to, empty: whoever deploys fills it in

The driver runs `tidelog pipeline run`: a pod that is moved goes on by the checkpoint, and ends what the last one has left open.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from tidelog.spark.pipelines.deploying.deploy_target import DeployError
from tidelog.spark.pipelines.deploying.image_file import HOME, USER_ID
from tidelog.spark.pipelines.deploying.placement import References
from tidelog.spark.pipelines.deploying.yaml_text import Yaml, documents

# Of Spark's own, here fixed, so that the Service can name them.
_DRIVER_PORT, _BLOCK_PORT, _METRICS_PORT = 7078, 7079, 9405
# A stop waits for the batch that is under way: 30 s for each query, and Spark's own end.
_GRACE_S = 120
_NAME_MAX = 63
# Whatever the API's address is from outside, this is where pods find it.
_API_INSIDE = "k8s://https://kubernetes.default.svc"


_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_MEMORY = re.compile(r"[1-9]\d{0,6}[mgMG]")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@-]{0,254}")


@dataclass(frozen=True, slots=True)
class KubernetesSettings:
    image: str
    namespace: str
    executors: int
    driver_memory: str
    executor_memory: str

    def check(self) -> None:
        """DeployError for what Kubernetes or Spark would not take."""
        if not _IMAGE.fullmatch(self.image):
            raise DeployError(f"{self.image!r} is no name of an image")
        if not _LABEL.fullmatch(self.namespace):
            raise DeployError(f"{self.namespace!r} is no namespace: it has lower-case letters, digits and hyphens")
        for memory in (self.driver_memory, self.executor_memory):
            if not _MEMORY.fullmatch(memory):
                raise DeployError(f"{memory!r} is no size of memory: expected one such as 512m or 2g")


def kubernetes_name(names: Sequence[str]) -> str:
    """For a deployment of these pipelines: letters, digits and hyphens."""
    text = re.sub(r"[^a-z0-9]+", "-", "-".join(names).lower()).strip("-")
    return f"tidelog-{text}"[:_NAME_MAX].rstrip("-")


def manifests(file: str, names: Sequence[str], references: References, settings: KubernetesSettings) -> str:
    """All of them, as one file for `kubectl apply`."""
    name = kubernetes_name(names)
    about: dict[str, Yaml] = {"name": name, "namespace": settings.namespace, "labels": {"app.kubernetes.io/name": name}}
    found: list[Yaml] = [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": about},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": about,
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["pods", "services", "configmaps", "persistentvolumeclaims"],
                    "verbs": ["create", "get", "list", "watch", "delete", "deletecollection", "patch"],
                }
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": about,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": settings.namespace}],
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": about,
            "spec": {
                "clusterIP": "None",
                "selector": {"app.kubernetes.io/name": name},
                "ports": [
                    {"name": "driver", "port": _DRIVER_PORT},
                    {"name": "blocks", "port": _BLOCK_PORT},
                    {"name": "metrics", "port": _METRICS_PORT},
                ],
            },
        },
        *_secrets(name, about, references),
        _deployment(name, about, file, names, references, settings),
    ]
    return documents(found)


def _secrets(name: str, about: Mapping[str, Yaml], references: References) -> list[Yaml]:
    """With nothing in them: a secret that is rendered is one that is committed somewhere."""
    found: list[Yaml] = []
    if references.variables:
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": about,
                "stringData": dict.fromkeys(references.variables, ""),
            }
        )
    for index, path in enumerate(_directories(references)):
        files = [PurePosixPath(each).name for each in references.files if str(PurePosixPath(each).parent) == path]
        found.append(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {**about, "name": f"{name}-files-{index}"},
                "stringData": dict.fromkeys(files, ""),
            }
        )
    return found


def _directories(references: References) -> list[str]:
    """Each is a volume: of a directory that is referred to, or in which a file is."""
    return sorted({*references.directories, *(str(PurePosixPath(each).parent) for each in references.files)})


def _deployment(
    name: str,
    about: Mapping[str, Yaml],
    file: str,
    names: Sequence[str],
    references: References,
    settings: KubernetesSettings,
) -> Yaml:
    directories = _directories(references)
    host = f"{name}.{settings.namespace}.svc"
    conf = {
        "spark.kubernetes.namespace": settings.namespace,
        "spark.kubernetes.container.image": settings.image,
        "spark.kubernetes.authenticate.driver.serviceAccountName": name,
        # Executors belong to the pod of the driver, and go with it.
        "spark.kubernetes.driver.pod.name": "$(POD_NAME)",
        "spark.executor.instances": str(settings.executors),
        "spark.executor.memory": settings.executor_memory,
        "spark.driver.memory": settings.driver_memory,
        "spark.driver.host": host,
        "spark.driver.bindAddress": "0.0.0.0",  # noqa: S104 - a pod has no other address that is known before it starts
        "spark.driver.port": str(_DRIVER_PORT),
        "spark.driver.blockManager.port": str(_BLOCK_PORT),
        # Executors have what their tasks refer to, too.
        **{f"spark.kubernetes.executor.secretKeyRef.{each}": f"{name}:{each}" for each in references.variables},
        **{f"spark.kubernetes.executor.secrets.{name}-files-{index}": path for index, path in enumerate(directories)},
    }
    arguments = ["pipeline", "run", f"{HOME}/{file}", "--master", _API_INSIDE, "--metrics-port", str(_METRICS_PORT)]
    # Prometheus asks the pod, not the pod itself.
    arguments += ["--metrics-host", "0.0.0.0"]  # noqa: S104
    arguments += [text for each in names for text in ("--only", each)]
    arguments += [text for key, value in conf.items() for text in ("--conf", f"{key}={value}")]
    container: dict[str, Yaml] = {
        "name": "driver",
        "image": settings.image,
        "command": ["tidelog"],
        "args": arguments,
        "env": [
            {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            *(
                {"name": each, "valueFrom": {"secretKeyRef": {"name": name, "key": each}}}
                for each in references.variables
            ),
        ],
        "ports": [{"name": "metrics", "containerPort": _METRICS_PORT}],
        "resources": {"requests": {"memory": _with_overhead(settings.driver_memory)}},
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "volumeMounts": [
            {"name": f"files-{index}", "mountPath": path, "readOnly": True} for index, path in enumerate(directories)
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": about,
        "spec": {
            "replicas": 1,
            # Two drivers of one checkpoint fence each other for ever.
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {
                "metadata": {"labels": {"app.kubernetes.io/name": name}},
                "spec": {
                    "serviceAccountName": name,
                    "terminationGracePeriodSeconds": _GRACE_S,
                    "securityContext": {"runAsNonRoot": True, "runAsUser": USER_ID},
                    "containers": [container],
                    "volumes": [
                        {"name": f"files-{index}", "secret": {"secretName": f"{name}-files-{index}"}}
                        for index, _ in enumerate(directories)
                    ],
                },
            },
        },
    }


def _with_overhead(memory: str) -> str:
    """Of Java's heap, as Spark says it: with what Java, Python and Arrow take beside it. In Kubernetes' words."""
    number, unit = int(memory[:-1]), memory[-1].lower()
    mebibytes = number * 1024 if unit == "g" else number
    return f"{mebibytes + max(512, mebibytes * 2 // 5)}Mi"
