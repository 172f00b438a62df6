"""The producer: records in, batches out, each written once and in order."""
