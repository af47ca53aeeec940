"""Holds the scorers, one in each file. A scorer checks one property of a response, and returns a verdict (a result)."""
