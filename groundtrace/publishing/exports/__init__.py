"""Exports a run's rows in the formats of other trainers and tools. Each format has its own file."""
