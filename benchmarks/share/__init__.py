"""Share groups on Tidelog beside Apache Kafka: records to many members, acknowledgements, groups that have nothing to do."""
