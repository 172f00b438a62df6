"""Time-outs, as a module that also compiles: see `tidelog.kernel_choice` for which twin runs."""
