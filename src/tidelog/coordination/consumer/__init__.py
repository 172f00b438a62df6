"""Groups of the consumer protocol of KIP-848: the coordinator assigns, each member catches up in its own time."""
