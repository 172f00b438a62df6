"""Members of share groups (KIP-932): records of a partition go to many members at once, and each is acknowledged by itself."""
