"""A cluster as one user sees it: the clients that ask, and the samples that are taken in the background."""
