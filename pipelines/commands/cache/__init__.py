"""``beam cache``: the parser, the places where caches are, and one file for each action."""
