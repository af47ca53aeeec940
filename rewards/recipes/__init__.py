"""One paper a file: how verdicts become a reward. :mod:`rewards.recipes.registry` lists them."""
