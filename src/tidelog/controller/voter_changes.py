"""AddRaftVoter and RemoveRaftVoter, as a broker passes them on: the quorum decides, and what it writes are control records."""

from __future__ import annotations

from tidelog.controller.decision import Refusal, RefusedError
from tidelog.controller.quorum import MetadataQuorum
from tidelog.controller.quorum_fields import QuorumMessageError
from tidelog.controller.quorum_requests import request_from_wire, version_of
from tidelog.controller.quorum_responses import refusal_to_wire, response_to_wire
from tidelog.model.errors import ErrorCode
from tidelog.model.pending import Pending
from tidelog.wire.messages.raft_voters import AddRaftVoterRequest, RemoveRaftVoterRequest
from tidelog.wire.schema import Response

VoterChange = AddRaftVoterRequest | RemoveRaftVoterRequest


def change_voters(request: VoterChange, quorum: MetadataQuorum) -> Pending[Response]:
    """What the quorum answers, at once or when the change is committed."""
    version = version_of(request)
    try:
        asked = request_from_wire(request, version)
    except QuorumMessageError as error:
        raise RefusedError(ErrorCode.INVALID_REQUEST, str(error)) from error
    answered: Pending[Response] = Pending()
    quorum.receive(asked).then(
        lambda answer: answered.complete(response_to_wire(answer, version, quorum.local.listener))
    )
    return answered


def refuse_change(request: VoterChange, refusal: Refusal) -> Response:
    answer = refusal_to_wire(request, refusal.error)
    answer.error_message = refusal.message  # type: ignore[attr-defined]  # both kinds have one
    return answer
