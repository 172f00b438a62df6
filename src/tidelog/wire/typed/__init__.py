"""The messages of the data path as classes with typed fields, which read and write themselves.

Written from the declarations in `tidelog.wire.messages` by tools/typed_messages.py. Nobody imports from here but compiled modules
that want the types: `tidelog.wire.messages.fetch.FetchRequest` is the class that is written here.
"""

# The modules of `tidelog.wire.messages` that have such classes.
FAMILIES = frozenset(
    ("consumer_groups", "fetch", "group_offsets", "groups_classic", "headers", "produce", "share_fetch", "transactions")
)
