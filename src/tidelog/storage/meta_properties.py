"""Whose a log directory is: `meta.properties`, written once by `format` and checked at every start.

version=1                                   0 was ZooKeeper's: cluster.id and broker.id, both optional
cluster.id=MkU3OEVBNTcwNTJENDM2Qg
node.id=1
directory.id=hUvdzVNQSYeaRVTRpKxbaw         which of the node's directories; older files have none
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.model.ids import DirectoryId, NodeId, uuid_from_text, uuid_to_text
from tidelog.storage.errors import DamagedFileError
from tidelog.storage.files import Files, read_if_present
from tidelog.storage.properties import format_properties, parse_properties

FILE_NAME = "meta.properties"
FILE_BYTES_MAX = 64 * 1024
VERSION = 1


class MetaProperties(NamedTuple):
    """The identity of a log directory."""

    cluster_id: str
    node_id: NodeId
    directory_id: DirectoryId | None = None


def read_meta_properties(files: Files, directory: str) -> MetaProperties | None:
    """The identity of a directory, or None if it was never formatted. `DamagedFileError` if it cannot be understood."""
    path = f"{directory}/{FILE_NAME}"
    content = read_if_present(files, path, FILE_BYTES_MAX)
    if content is None:
        return None
    properties = parse_properties(content)
    if (version := properties.get("version", "0").strip()) != str(VERSION):
        raise DamagedFileError(
            path,
            f"it has version {version}; only version {VERSION} is known. Version 0 is ZooKeeper's: migrate with Kafka 3.9",
        )
    for key in ("cluster.id", "node.id"):
        if key not in properties:
            raise DamagedFileError(path, f"{key} is missing")
    try:
        node_id = NodeId(int(properties["node.id"]))
    except ValueError:
        raise DamagedFileError(path, f"node.id={properties['node.id']} is no number") from None
    directory_id: DirectoryId | None = None
    if "directory.id" in properties:
        try:
            directory_id = DirectoryId(uuid_from_text(properties["directory.id"]))
        except ValueError as error:
            raise DamagedFileError(path, f"directory.id: {error}") from None
    return MetaProperties(properties["cluster.id"], node_id, directory_id)


def write_meta_properties(files: Files, directory: str, identity: MetaProperties) -> None:
    """Write the identity, atomically and durably."""
    properties = {"version": str(VERSION), "cluster.id": identity.cluster_id, "node.id": str(identity.node_id)}
    if identity.directory_id is not None:
        properties["directory.id"] = uuid_to_text(identity.directory_id)
    files.write_bytes_atomically(f"{directory}/{FILE_NAME}", format_properties(properties))
