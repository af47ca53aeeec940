"""One file per model family: its coordinates, its prompts for pointing and boxing, and its parsers."""
