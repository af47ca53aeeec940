"""Reads, checks and documents the settings of a TOML config."""
