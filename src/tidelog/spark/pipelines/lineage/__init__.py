"""What pipelines read and write, told to whoever collects lineage, as OpenLineage's events."""
