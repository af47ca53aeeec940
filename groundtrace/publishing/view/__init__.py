"""Serves the rows of a finished run (one execution of a pipeline) to a web browser, for ``beam view``.

The user can search, filter and count rows, and view all data of a record.
"""
