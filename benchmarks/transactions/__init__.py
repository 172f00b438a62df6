"""Transactions beside Apache Kafka."""
