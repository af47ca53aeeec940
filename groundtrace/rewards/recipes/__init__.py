"""The reward recipes, one file per paper; :mod:`groundtrace.rewards.recipes.registry` lists them."""
