"""From a recipe and an input to a finished run folder."""
