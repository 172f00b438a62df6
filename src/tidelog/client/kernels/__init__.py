"""Hot loops of the clients, each one source for a plain and a compiled twin."""
