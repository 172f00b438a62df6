"""What every frame goes through, as one module that also compiles: see `tidelog.kernel_choice` for which twin runs."""
