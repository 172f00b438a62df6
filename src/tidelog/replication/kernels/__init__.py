"""What every write and read asks of its partition, as one module that also compiles: see `tidelog.kernel_choice` for which twin
runs."""
