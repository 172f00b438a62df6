"""What a node counts while it works."""
