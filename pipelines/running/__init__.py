"""Makes a finished run folder from a recipe and an input. To read the code, begin with ``library`` and ``run``.

There are three packages: ``plan``, ``execute`` and ``account``. Each imports only from those before it. ``settings``
and ``endings`` import from none of them.
"""
