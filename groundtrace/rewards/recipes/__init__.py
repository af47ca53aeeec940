"""Holds the reward recipes, one file for each paper. A recipe computes rewards of responses.

The rewards are computed from verdicts, which are the results of scorers. :mod:`groundtrace.rewards.recipes.registry`
lists the recipes.
"""
