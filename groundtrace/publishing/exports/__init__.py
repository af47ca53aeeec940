"""Exports a run's rows in the formats of other trainers and tools; each format has its own file."""
