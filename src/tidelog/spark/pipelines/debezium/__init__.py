"""Change events of Debezium as rows: what happened to which row of a table, and where in the order of its source."""
