"""What a pipeline writes to beside topics: staged by tasks, ended by whoever finds the decision."""
