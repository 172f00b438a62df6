"""Consumer groups on Tidelog beside Apache Kafka: how soon one reads, what commits and heartbeats take."""
