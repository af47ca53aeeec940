"""Input formats: read files into numbered raw records."""
