"""Avro, Protobuf and a schema registry's frames as Arrow columns: what `decoding` works with."""
