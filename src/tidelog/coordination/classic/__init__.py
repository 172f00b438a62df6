"""Groups of the classic protocol, in which a member, the leader, assigns. `groups.ClassicGroups` is the way in."""
