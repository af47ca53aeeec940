"""Plans a run: finds its recipe, config, input, models, Beam options and run folder.

The packages ``execute`` (runs the plan) and ``account`` (counts records and costs) use this package; it does not use
them.
"""
