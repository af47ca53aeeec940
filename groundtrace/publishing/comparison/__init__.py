"""Compares two finished runs: the size of each set, records that ended in different sets, scores, and settings."""
