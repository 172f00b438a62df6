"""Records: read, decoded, searched, exported and produced."""
