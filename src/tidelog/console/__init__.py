"""The console: a web server that shows a Kafka cluster and what is in it. `tidelog console` runs it."""
