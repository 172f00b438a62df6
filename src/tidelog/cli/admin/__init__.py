"""`tidelog topics`, `configs` and `cluster`."""
