"""What TLS costs a node: beside Apache Kafka, beside the same node without it, and beside OpenSSL alone."""
