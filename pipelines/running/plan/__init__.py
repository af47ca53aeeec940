"""What is going to run, and where: recipe, config, input, models, Beam options, run folder; imports no other room."""
