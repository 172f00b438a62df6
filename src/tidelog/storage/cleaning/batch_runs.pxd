# The types of `batch_runs` are in its annotations.
