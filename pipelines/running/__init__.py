"""Runs a recipe (a pipeline's file, which names its stages) over an input, and makes a finished run folder.

The run folder holds the outputs of the run. A reader of the code should begin with the modules ``library`` and ``run``.
The package ``plan`` prepares a run, ``execute`` runs it as a Beam job, and ``account`` counts its records and costs.
Each of the three imports only from the packages before it. ``settings`` and ``endings`` import from none of them.
"""
