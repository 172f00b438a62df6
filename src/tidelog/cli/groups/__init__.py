"""`tidelog groups`."""
