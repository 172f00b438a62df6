"""Share groups: who their members are, and which partitions each of them takes records from. `groups` is the way in."""
