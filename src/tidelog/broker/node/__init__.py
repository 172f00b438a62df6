"""One node put together: its start, its stop, and the process or test program that runs it."""
