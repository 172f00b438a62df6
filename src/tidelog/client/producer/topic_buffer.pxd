# The types of `topic_buffer` are in its annotations.
