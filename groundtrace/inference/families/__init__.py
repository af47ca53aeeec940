"""Holds one file for each model family, with its coordinates, its prompts for pointing and boxing, and its parsers."""
