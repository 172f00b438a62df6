"""`tidelog users`."""
