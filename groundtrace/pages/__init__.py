"""Renders HTML pages: their frame and style, and the responses and images that several pages show."""
