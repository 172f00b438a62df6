"""What a node shows of itself to those who look inside: its `/trace` and `/log`."""
