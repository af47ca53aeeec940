"""Implements ``beam cache``, which shows, prunes and exports a reply cache (the stored replies of models): the parser,
the search for caches, and one file for each action.
"""
