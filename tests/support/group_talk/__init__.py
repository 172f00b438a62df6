"""Conversations about groups, held with any broker over raw sockets and noted down, to compare what two brokers say."""
