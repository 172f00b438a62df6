"""Consumer groups on this node."""
