"""SASL: mechanisms, and the credentials that they go by."""
