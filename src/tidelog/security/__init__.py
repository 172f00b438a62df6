"""Who is at the other end, what it may do, and secrets: as values and pure functions, without sockets, loops or nodes."""
