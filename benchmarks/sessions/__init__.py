"""Clients whose fetches have sessions (KIP-227), which librdkafka's have not: Java's, franz-go's and ours; and many sessions."""
