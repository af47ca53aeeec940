"""Reads the responses of models, and grades the answers in them against the gold (correct) answers."""
