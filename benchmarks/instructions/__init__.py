"""How many instructions a node takes for a request: figures that nothing else on the machine can disturb."""
