"""Clients of a Kafka cluster, Tidelog's or Apache Kafka's."""
