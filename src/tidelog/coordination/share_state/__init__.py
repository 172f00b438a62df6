"""What share groups have had of each partition: the state that its leader keeps. `share_state_shard` is the way in."""
