"""Who a request is made for, as authorisers, ACLs and quotas name it."""

from __future__ import annotations

from typing import NamedTuple


class Principal(NamedTuple):
    """A kind, which is `User` for everybody that Kafka itself names, and a name."""

    principal_type: str
    name: str
    token_authenticated: bool = False
    """Whether it came with a delegation token: such a caller may not ask for further tokens."""

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS = Principal("User", "ANONYMOUS")
