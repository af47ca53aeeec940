"""Holds the reward recipes, one file for each paper; :mod:`groundtrace.rewards.recipes.registry` lists them."""
