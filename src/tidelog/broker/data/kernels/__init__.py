"""What of the broker is compiled: the short ways of Produce and Fetch, and what every request goes through."""
