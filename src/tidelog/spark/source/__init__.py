"""Topics as a source of Spark: options, offsets, plans on the driver, reading in tasks."""
