"""Topics of any Kafka cluster in Spark, through PySpark: `spark.read` and `spark.readStream` with `.format("tidelog")`."""
