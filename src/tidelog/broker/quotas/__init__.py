"""What clients may take of this node, and who has taken how much."""
