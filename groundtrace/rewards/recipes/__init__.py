"""Holds the reward recipes, one file for each paper. A recipe turns verdicts on responses into rewards.

:mod:`groundtrace.rewards.recipes.registry` lists the recipes.
"""
