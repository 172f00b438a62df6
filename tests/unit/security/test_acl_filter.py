from __future__ import annotations

import pytest

from tests.support.acls import DENY, acl
from tidelog.model.acl import AclOperation, PatternType, PermissionType, ResourceType
from tidelog.security.acl_filter import AclFilter

LITERAL = acl("User:a", AclOperation.READ, "foo")
PREFIXED = acl("User:a", AclOperation.READ, "fo", pattern=PatternType.PREFIXED)
EVERY = acl("User:b", AclOperation.WRITE, "*", host="10.0.0.1", permission=DENY)
GROUP = acl("User:a", AclOperation.READ, "foo", kind=ResourceType.GROUP)
ALL = (LITERAL, PREFIXED, EVERY, GROUP)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (AclFilter(), ALL),
        (AclFilter(ResourceType.TOPIC), (LITERAL, PREFIXED, EVERY)),
        (AclFilter(resource_name="foo", pattern_type=PatternType.ANY), (LITERAL, GROUP)),
        (AclFilter(ResourceType.TOPIC, "foo", PatternType.MATCH), (LITERAL, PREFIXED, EVERY)),
        (AclFilter(ResourceType.TOPIC, "fob", PatternType.MATCH), (PREFIXED, EVERY)),
        (AclFilter(ResourceType.TOPIC, None, PatternType.MATCH), (LITERAL, PREFIXED, EVERY)),
        (AclFilter(ResourceType.TOPIC, "fo", PatternType.PREFIXED), (PREFIXED,)),
        (AclFilter(ResourceType.TOPIC, "foo", PatternType.PREFIXED), ()),
        (AclFilter(ResourceType.TOPIC, "*", PatternType.LITERAL), (EVERY,)),
        (AclFilter(principal="User:b"), (EVERY,)),
        (AclFilter(host="*"), (LITERAL, PREFIXED, GROUP)),
        (AclFilter(operation=AclOperation.WRITE), (EVERY,)),
        (AclFilter(permission_type=PermissionType.DENY), (EVERY,)),
    ],
)
def test_a_filter_finds_what_fits_all_that_it_says(wanted: AclFilter, found: tuple[object, ...]) -> None:
    assert tuple(each for each in ALL if wanted.matches(each)) == found


def test_a_filter_knows_the_words_that_nobody_knows() -> None:
    assert AclFilter(resource_type=0).has_unknown_pattern
    assert AclFilter(pattern_type=99).has_unknown_pattern
    assert AclFilter(operation=99).has_unknown_entry
    assert not AclFilter().has_unknown_pattern
    assert not AclFilter().has_unknown_entry
