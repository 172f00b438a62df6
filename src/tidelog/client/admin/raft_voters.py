"""Who votes in the metadata quorum: controllers that join it, and that leave it (KIP-853)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.client.admin.outcomes import error_of, value_of
from tidelog.client.admin.requests import CONTROLLER, Requests
from tidelog.client.errors import ConfigError
from tidelog.model.ids import uuid_from_text
from tidelog.wire.messages.raft_voters import (
    AddRaftVoterRequest,
    AddRaftVoterResponse,
    Listener,
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)


@dataclass(frozen=True, slots=True)
class RaftVoterEndpoint:
    """Where a controller is reached by one of its listeners."""

    name: str
    host: str
    port: int


class RaftVoterCalls:
    """What an admin does with the voters of the metadata quorum. A quorum of static voters refuses all of it."""

    _requests: Requests

    async def add_raft_voter(
        self,
        node_id: int,
        directory_id: str,
        endpoints: Iterable[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
    ) -> None:
        """Let a controller vote that has caught up with the metadata. `directory_id` is that of its metadata log, as its
        `meta.properties` says and `describe_quorum` tells of observers. Returns once the change is committed.

        >>> await admin.add_raft_voter(2, "F6Q5sCdKR3mLmpUTYTnHrQ", [RaftVoterEndpoint("CONTROLLER", "node-2", 9093)])
        """
        request = AddRaftVoterRequest(
            cluster_id=cluster_id,
            timeout_ms=self._requests.options.change_timeout_ms,
            voter_id=node_id,
            voter_directory_id=_directory(directory_id),
            listeners=[Listener(name=each.name, host=each.host, port=each.port) for each in endpoints],
        )
        answer = await self._requests.ask(
            CONTROLLER, request, AddRaftVoterResponse, codes=lambda each: [each.error_code], is_repeatable=False
        )
        value_of(error_of(answer.error_code, answer.error_message, about=f"controller {node_id}"))

    async def remove_raft_voter(self, node_id: int, directory_id: str, *, cluster_id: str | None = None) -> None:
        """Have a controller vote no more; it observes from then on. Returns once the change is committed.

        >>> await admin.remove_raft_voter(2, "F6Q5sCdKR3mLmpUTYTnHrQ")
        """
        request = RemoveRaftVoterRequest(
            cluster_id=cluster_id, voter_id=node_id, voter_directory_id=_directory(directory_id)
        )
        answer = await self._requests.ask(
            CONTROLLER, request, RemoveRaftVoterResponse, codes=lambda each: [each.error_code], is_repeatable=False
        )
        value_of(error_of(answer.error_code, answer.error_message, about=f"controller {node_id}"))


def _directory(text: str) -> bytes:
    try:
        return uuid_from_text(text)
    except ValueError:
        raise ConfigError(
            f"{text} is no directory id: it is in the meta.properties of the metadata log's directory"
        ) from None
