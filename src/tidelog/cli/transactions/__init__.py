"""`tidelog transactions`."""
