"""This node among the others: registration, links, the way to the active controller, who is alive and where."""
