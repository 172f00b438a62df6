# The types of `record_decoder` are in its annotations.
