"""Who is at the other end: the mechanisms of SASL, both sides of each, without a socket."""
