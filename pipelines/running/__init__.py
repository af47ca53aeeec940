"""Runs a recipe over an input, and makes a finished run folder. To read the code, begin with ``library`` and ``run``.

The three packages are ``plan``, ``execute`` and ``account``. Each imports only from the packages before it.
``settings`` and ``endings`` import from none of them.
"""
