"""The leader's side of share groups (KIP-932): who has which records in hand, and what becomes of them."""
