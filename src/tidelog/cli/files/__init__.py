"""`tidelog dump-log` and `verify`: the files of a data directory."""
