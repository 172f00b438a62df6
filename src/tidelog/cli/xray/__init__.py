"""`tidelog xray`: one record, followed through a cluster."""
