"""Defines the records, geometry and Arrow schemas that stages of a pipeline exchange, and text functions that all
packages share.

This package calls no model and reads no pixels.
"""

if __name__ != "groundtrace.schemas":  # for example if the repository's top folder is on a script's path
    raise ImportError(
        "import this package as groundtrace.schemas: under another name, Python would load its classes twice"
    )
