"""Running it: one job, its runner, workers, live view and files; imports ``plan``, and nothing of ``account``."""
