"""A pipeline as people see it: its graph and how far behind it was over time, as text and as an SVG."""
