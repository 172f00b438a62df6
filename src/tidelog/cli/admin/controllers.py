"""`tidelog cluster add-controller` and `remove-controller`: who votes in the metadata quorum, as `kafka-metadata-quorum` does it.

A controller is added on its own machine, or wherever its configuration and its log directory can be read: both say who it is.
It runs already, as an observer that has caught up. One that is removed goes on as an observer until it is stopped.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.broker.config.node_config import log_directories
from tidelog.cli.admin_session import EXIT_WRONG_QUESTION, RefusalError, administer, complain, print_line
from tidelog.cli.node.broker import read_server_properties
from tidelog.cli.node.format import controller_endpoints
from tidelog.client.admin import AsyncAdmin, RaftVoterEndpoint
from tidelog.model import broker_config as keys
from tidelog.model.config import ConfigError
from tidelog.model.ids import uuid_to_text
from tidelog.storage.errors import StorageError
from tidelog.storage.meta_properties import read_meta_properties
from tidelog.storage.os_files import OsFiles

_COMMAND = "cluster"


def add_controller(bootstrap: str, config_path: str | None, settings: Sequence[str]) -> int:
    """Let the controller of a configuration vote. The exit code."""
    try:
        node_id, directory_id, endpoints = _identity(config_path, settings)
    except (ConfigError, StorageError) as error:
        return complain(_COMMAND, str(error), EXIT_WRONG_QUESTION)

    async def work(admin: AsyncAdmin) -> None:
        await admin.add_raft_voter(node_id, directory_id, endpoints)
        listening = ", ".join(f"{each.name}://{each.host}:{each.port}" for each in endpoints)
        print_line(f"controller {node_id} votes, with directory {directory_id}, at {listening}")

    return administer(_COMMAND, bootstrap, work)


def remove_controller(bootstrap: str, node_id: int, directory_id: str | None) -> int:
    """Have a controller vote no more. The exit code."""

    async def work(admin: AsyncAdmin) -> None:
        directory = directory_id
        if directory is None:
            voters = (await admin.describe_quorum()).voters
            directory = next((each.directory_id for each in voters if each.node_id == node_id), None)
        if directory is None:
            raise RefusalError(
                f"controller {node_id} does not vote, or its directory is not known: see cluster describe"
            )
        await admin.remove_raft_voter(node_id, directory)
        print_line(f"controller {node_id} votes no more")

    return administer(_COMMAND, bootstrap, work)


def _identity(config_path: str | None, settings: Sequence[str]) -> tuple[int, str, list[RaftVoterEndpoint]]:
    """The node that a configuration is of, the directory of its metadata log, and where its controller listens."""
    config = read_server_properties(config_path, settings).values
    endpoints = [RaftVoterEndpoint(each.listener, each.host, each.port) for each in controller_endpoints(config)]
    if not endpoints:
        raise ConfigError("the configuration is not that of a controller: see process.roles")
    path = log_directories(config)[0]
    identity = read_meta_properties(OsFiles(), path)
    if identity is None or identity.directory_id is None:
        raise ConfigError(f"{path} is not formatted: see `tidelog format --no-initial-controllers`")
    return config[keys.NODE_ID], uuid_to_text(identity.directory_id), endpoints
