"""Ids, error codes, configuration keys, and the seams to the outside: what every layer above speaks of."""
