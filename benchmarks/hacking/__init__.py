"""Responses that want a reward without the work, and what they earn: see README.md."""
