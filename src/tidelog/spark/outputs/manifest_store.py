"""Manifests as files: written before a decision names them, and read by whoever ends it, which then has what was decided or
nothing."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from tidelog.spark.outputs.kind import OutputKind, OutputRefusedError, kind_of
from tidelog.spark.outputs.staged import VERSION, Manifest, StagedBatch, StagedOutput, StagedPart, Target
from tidelog.spark.outputs.storage import Storage

if TYPE_CHECKING:
    import pyarrow as pa

# Some hundred thousand files, each with its statistics.
MANIFEST_BYTES_MAX = 256 * 1024 * 1024


def write_manifest(
    target: Target, staging: str, staging_storage: Mapping[str, str], manifest: Manifest, *, run: str
) -> StagedBatch:
    """What a decision can name from now on. Two runs of one batch write two files."""
    content = msgspec.json.encode(manifest)
    name = f"manifest-{manifest.batch_id:010d}-{run}.json"
    Storage.at(staging, staging_storage).write(name, content)
    output = StagedOutput(
        sink=manifest.sink,
        target=target,
        manifest_path=f"{staging.rstrip('/')}/{name}",
        manifest_bytes=len(content),
        manifest_sha256=hashlib.sha256(content).hexdigest(),
        rows=manifest.rows,
        checksum=manifest.checksum,
        staging_storage=dict(staging_storage),
    )
    return StagedBatch(output, manifest)


def read_manifest(output: StagedOutput) -> StagedBatch:
    """OutputRefusedError where it is not what was decided; OSError where it cannot be read now."""
    directory, _, name = output.manifest_path.rpartition("/")
    try:
        content = Storage.at(directory, output.staging_storage).read(name, bytes_max=MANIFEST_BYTES_MAX)
    except FileNotFoundError:
        raise OutputRefusedError(f"the manifest {output.manifest_path} of the sink {output.sink} is gone") from None
    if len(content) != output.manifest_bytes or hashlib.sha256(content).hexdigest() != output.manifest_sha256:
        raise OutputRefusedError(f"{output.manifest_path} is not the manifest that was decided: it was changed since")
    try:
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.DecodeError as error:
        raise OutputRefusedError(f"the manifest {output.manifest_path} cannot be read: {error}") from error
    if manifest.version != VERSION:
        raise OutputRefusedError(
            f"the manifest {output.manifest_path} has version {manifest.version}, this release knows {VERSION}"
        )
    return StagedBatch(output, manifest)


def delete_manifest(output: StagedOutput) -> None:
    """Once the batch is finished, nobody needs it."""
    directory, _, name = output.manifest_path.rpartition("/")
    Storage.at(directory, output.staging_storage).delete(name)


def kind_of_output(output: StagedOutput) -> OutputKind:
    """Whoever ends it."""
    return kind_of(output.target, output.manifest_path.rpartition("/")[0], dict(output.staging_storage))


def manifest_of(sink: str, app_id: str, batch_id: int, schema: pa.Schema, parts: Sequence[StagedPart]) -> Manifest:
    return Manifest(sink, app_id, batch_id, encode_schema(schema), tuple(parts))


def encode_schema(schema: pa.Schema) -> str:
    return base64.b64encode(bytes(schema.serialize())).decode()


def decode_schema(text: str) -> pa.Schema:
    import pyarrow as pa  # noqa: PLC0415 - those who only list manifests need none

    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
