# The types of `record_encoder` are in its annotations.
