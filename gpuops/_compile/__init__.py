"""Kernels of a user's own: reading, compiling, keeping what was compiled."""
