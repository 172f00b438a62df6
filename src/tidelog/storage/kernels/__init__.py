"""Compiled at install where a compiler is there; plain Python where not. `tidelog.kernel_choice` picks."""
