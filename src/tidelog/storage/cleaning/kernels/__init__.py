"""Kernels of compaction: see `tidelog.kernel_choice`."""
