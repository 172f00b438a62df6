"""`tidelog users` and `tidelog tokens`."""
