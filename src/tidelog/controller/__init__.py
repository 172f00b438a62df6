"""The cluster's metadata: an immutable image of it, the records that change it, the decisions that make records."""
