"""Compares two finished runs: how many rows they kept, records that ended in different sets, scores, and settings."""
