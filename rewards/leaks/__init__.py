"""Whether reasoning gives away that its writer was told the answer.

:mod:`rewards.leaks.finding` reads a text. The signs that it looks for stand in files of their own: those anywhere in a
text, those at its start, and those in other languages than English, over the words of :mod:`rewards.leaks.vocabulary`.
"""
