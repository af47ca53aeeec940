"""Runs a recipe (a pipeline's file, which names its stages) over an input, and makes a finished run folder.

The run folder holds the outputs of the run. A reader of the code should begin with the modules ``library`` and ``run``.
The package ``plan`` prepares a run, ``execute`` runs it as a Beam job, and ``account`` counts its records and costs. Of
these three packages, ``plan`` imports from no other, ``execute`` only from ``plan``, and ``account`` from ``plan`` and
``execute``. The modules ``settings`` and ``endings`` import from none of the three.
"""
