"""Contains the input formats, which read files into numbered raw records."""
