"""Who is at the other end of a connection: SASL in front of a listener, and a node's own logins."""
