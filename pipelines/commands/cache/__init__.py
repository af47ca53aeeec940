"""Implements ``beam cache``: the parser, the search for caches, and one file for each action."""
