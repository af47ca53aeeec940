"""Holds the scorers, one in each file. Each scorer gives a verdict on the response to a question."""
