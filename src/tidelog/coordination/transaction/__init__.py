"""Transactions: who may write under a transactional id, and how each transaction ends. `transaction_shard` is the way in."""
