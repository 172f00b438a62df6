"""`tidelog broker`, `up` and `format`: nodes on this machine."""
