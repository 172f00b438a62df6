"""`tidelog console`."""
