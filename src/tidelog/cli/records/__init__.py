"""`tidelog produce` and `consume`."""
