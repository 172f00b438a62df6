"""The distance to the floor: a C program, and a bare uvloop echo, in the node's place."""
