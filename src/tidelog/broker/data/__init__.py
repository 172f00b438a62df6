"""What Produce and Fetch go through between their handlers and the partitions."""
