"""The replicas on a node: who leads, how far each one is, what may be read, and who waits for what."""
