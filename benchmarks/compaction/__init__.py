"""Compaction on Tidelog beside Apache Kafka."""
