"""What one client has to wait for others: round trips in quiet, under attack and after it, on Tidelog beside Apache Kafka."""
