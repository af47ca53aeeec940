"""Implements ``beam cache``, which shows, prunes and exports a reply cache (the stored replies of models).

The package has a module with the parser, a module that finds caches, and one module for each action.
"""
