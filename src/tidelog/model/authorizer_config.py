"""The configuration keys that say who may do what.

Names and defaults are those of Apache Kafka 4.3. `super.users` and `allow.everyone.if.no.acl.found` belong to its
StandardAuthorizer, which is the only authoriser here.
"""

from __future__ import annotations

from tidelog.model.config import ConfigKeys, bool_key, list_key, string_key

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"

AUTHORIZER_CLASS_NAME = string_key(
    "authorizer.class.name",
    "",
    doc=f"Who decides what callers may do: `{STANDARD_AUTHORIZER}`, by ACLs. Empty: everybody may do everything.",
)
SUPER_USERS = string_key(
    "super.users", "", doc="Principals that may do everything, as `Type:name`, with semicolons between them."
)
ALLOW_EVERYONE_IF_NO_ACL_FOUND = bool_key(
    "allow.everyone.if.no.acl.found", False, doc="Whether a resource that no ACL is about is open to everybody."
)
EARLY_START_LISTENERS = list_key(
    "early.start.listeners",
    (),
    doc="The listeners that serve before the ACLs of the cluster are there. Where it is not set: those for controllers.",
)

AUTHORIZER_KEYS = ConfigKeys(
    [AUTHORIZER_CLASS_NAME, SUPER_USERS, ALLOW_EVERYONE_IF_NO_ACL_FOUND, EARLY_START_LISTENERS]
)
