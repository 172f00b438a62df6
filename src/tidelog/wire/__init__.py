"""Kafka's bytes: messages and record batches, to and from Python. Nothing here reads a socket, a file or a clock."""
