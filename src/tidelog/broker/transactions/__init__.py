"""Transactions on this node: their coordinator, their markers, and what lets transactional records in."""
