"""Share groups (KIP-932) on this node: who has which records in hand, what becomes of them, and where that is kept."""
