"""What Apache Kafka's own classes and broker answered about security: questions made from seeds, and tables of the answers."""
