"""One record through a cluster: where it lies, its bytes, and what happens to its partition while somebody listens."""
