"""How many examples a property test looks at: few in `make test`, as many as it is asked for in `make soak`."""

from __future__ import annotations

from hypothesis import settings


def examples(count: int) -> settings:
    """`count` in the derandomised profile; in the other one at least what that says, which a number given to `settings` would
    override."""
    chosen = settings.get_profile(settings.get_current_profile_name())
    return settings(max_examples=count if chosen.derandomize else max(count, chosen.max_examples))
