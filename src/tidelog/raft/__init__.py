"""Consensus on one log, Kafka's KRaft, as a machine without I/O: events in, effects out. See README.md."""
