"""HTTP: how a request becomes a call, and its answer bytes."""
