"""Holds one file for each model family: models that write coordinates in the same way. A file describes the family's
coordinates, its prompts for points and boxes, and the parsers of its replies.
"""
