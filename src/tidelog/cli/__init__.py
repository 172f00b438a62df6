"""The command line: what a person types. Each command imports what it uses when it runs, so that `--help` is instant."""
