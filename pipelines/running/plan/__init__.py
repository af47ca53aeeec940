"""Plans a run: finds its recipe, config, input, models, Beam options and run folder.

It does not import ``account`` or ``execute``.
"""
