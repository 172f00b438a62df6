"""The consumer: fetching, positions, groups. `README.md` says which file has what."""
