"""Compares two finished runs: their yields, the records that changed side, their scores and their settings."""
