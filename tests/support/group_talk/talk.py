"""One side of a conversation: what was asked in one group, and what was told, without what must differ between two brokers.

    with Talk(bootstrap, "group") as talk:
        member_id = talk.stable_member()
        talk.commit({("orders", 0): 5}, member_id=member_id, epoch=1)
    talk.told

Each kind of request has a module of its own. Member ids that a broker made are named by the order in which they were first seen.
"""

from __future__ import annotations

from tests.support.group_talk.administration import AdministrationTalk
from tests.support.group_talk.classic import ClassicTalk
from tests.support.group_talk.consumer import ConsumerTalk
from tests.support.group_talk.offsets import OffsetsTalk


class Talk(ClassicTalk, ConsumerTalk, OffsetsTalk, AdministrationTalk):
    """All that can be asked about a group."""
