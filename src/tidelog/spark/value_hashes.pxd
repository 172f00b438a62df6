# The types of `value_hashes` are in its annotations.
