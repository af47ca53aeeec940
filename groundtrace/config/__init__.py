"""Reads a TOML config into settings objects, checks its values, and writes the reference of all settings."""
