"""Serves the rows of a finished run to a browser, for ``beam view``: search, filters, counts, and each record whole."""
