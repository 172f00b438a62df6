"""From a frame to its handler: dispatching, the table of handlers, and what a handler sees of its caller and its node."""
