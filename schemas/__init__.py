"""What flows between stages (records, geometry, Arrow schemas), and the parsing and grading of text.

Nothing here calls a model or reads pixels.
"""
