"""One paper a file: how verdicts become a reward. :mod:`groundtrace.rewards.recipes.registry` lists them."""
