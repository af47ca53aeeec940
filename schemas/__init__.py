"""The records, geometry and Arrow schemas that stages exchange, and functions on text that all packages share.

Nothing here calls a model or reads pixels.
"""

if __name__ != "groundtrace.schemas":  # such as by a script with the repository's top on its path
    raise ImportError(
        "import this package as groundtrace.schemas: under another name, Python would load its classes twice"
    )
