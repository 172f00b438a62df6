"""What the coordinators of groups and transactions share: the log partitions they live in, and questions to other brokers."""
