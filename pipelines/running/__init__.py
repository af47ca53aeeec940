"""From a recipe and an input to a finished run folder: ``library`` and ``run`` are where to begin to read.

Three rooms, each of which imports from those before it only: ``plan``, ``execute``, ``account``. ``settings`` and
``endings`` are below them.
"""
