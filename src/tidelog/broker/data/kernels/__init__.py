"""What of the broker is compiled: the fast paths of Produce and Fetch, and what every request goes through."""
