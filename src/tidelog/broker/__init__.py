"""The node: requests to handlers, handlers to partitions and the controller, and the one place where it is all put together."""
