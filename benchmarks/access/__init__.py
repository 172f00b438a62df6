"""What it costs that a node judges its clients."""
