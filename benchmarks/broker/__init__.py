"""Tidelog beside Apache Kafka: two brokers on one machine, the same load on each in turn. See benchmarks/README.md."""
