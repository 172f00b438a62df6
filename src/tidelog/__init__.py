"""Tidelog: a distributed commit log that speaks Apache Kafka's protocol and keeps Apache Kafka's files."""

__version__ = "0.1.0"
