"""Reads the responses of models, and grades their answers against the gold answers."""
