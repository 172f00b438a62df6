"""Three nodes of Tidelog beside three of Apache Kafka."""
