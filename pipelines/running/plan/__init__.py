"""Plans a run: finds its recipe, config, input, models, Beam options and run folder. Imports no package beside it."""
