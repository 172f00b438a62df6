# The types of `topic_buffer` itself are in its annotations.
from tidelog.client.producer.batch_builder cimport BatchBuilder, Delivery
