"""Renders HTML pages: the layout and style of all pages, and the responses and images that several pages show."""
