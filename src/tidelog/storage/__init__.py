"""A partition on disk, in Apache Kafka's own files. Start with `log_directory` and `partition_log`; README.md has the map."""
