"""What the run came to: counts, costs, failures, summary, outputs in place; imports ``execute`` and ``plan``."""
