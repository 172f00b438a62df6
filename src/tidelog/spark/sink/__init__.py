"""Topics as a sink of Spark: rows to records, and transactions whose end the driver decides."""
