"""Records of the internal logs, and other things that Kafka writes in the form of its messages."""
