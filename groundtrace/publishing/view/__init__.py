"""Serves the rows of a finished run to a web browser, for ``beam view``.

The user can search, filter and count rows, and view all data of a record.
"""
