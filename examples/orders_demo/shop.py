"""What the parts of the demo agree about: topics, the shape of an event, and the rules by which it counts.

An order goes through four states. Each is one record of the topic `orders` with the order as its key, so that the states of one
order stand in one partition, in order. The record's timestamp says when it was sent; `at_ms` in its value, when it happened.

    {"order": "order-00042", "state": "placed", "at_ms": 1780304400000, "product": "tea", "cents": 1250}
    {"order": "order-00042", "state": "paid", "at_ms": 1780304437000, "cents": 1250}

An event that was sent more than ALLOWED_LATENESS_MS after it happened is not counted but set apart. That is known from the record
alone, so that it does not depend on who reads it when.
"""

from __future__ import annotations

ORDERS = "orders"
PAID = "paid-orders"
REVENUE = "revenue"
DEAD_LETTERS = "dead-letters"
NOTIFICATIONS = "notifications"
PARTITIONS = 3

NOTIFICATIONS_GROUP = "notifications"
REVENUE_GROUP = "revenue"

STATES = ("placed", "paid", "shipped", "delivered")

PRODUCTS = {"tea": 450, "coffee": 890, "honey": 720, "olives": 610, "chocolate": 380}
"""What each costs, in cents."""

# A minute of the shop passes in a second of the clock.
SPEED = 60
MINUTE_MS = 60_000

ALLOWED_LATENESS_MS = 2 * MINUTE_MS
# No event is sent while one that was sent so long before is not acknowledged.
UNACKNOWLEDGED_MS_MAX = 2 * MINUTE_MS
# Both of the above, and two minutes (two seconds of the clock) for brokers that are asked one after another.
WATERMARK_DELAY_MS = 6 * MINUTE_MS
# A payment belongs to its order if it comes within this time.
PAYMENT_WITHIN_MS = 5 * MINUTE_MS


def window_of(at_ms: int) -> int:
    """The beginning of the minute of an event."""
    return at_ms - at_ms % MINUTE_MS
