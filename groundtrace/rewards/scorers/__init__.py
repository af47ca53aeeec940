"""The scorers, one per file: each gives a verdict on the response to a question."""
