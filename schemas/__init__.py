"""What flows between stages (records, geometry, Arrow schemas), and the parsing and grading of text.

Nothing here calls a model or reads pixels.
"""

if __name__ != "groundtrace.schemas":  # as where a script has the repository's top on its path
    raise ImportError("import it as groundtrace.schemas: under a second name its classes would be other classes")
