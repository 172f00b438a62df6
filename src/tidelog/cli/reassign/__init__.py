"""`tidelog reassign`."""
