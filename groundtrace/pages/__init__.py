"""Renders the HTML pages about pipelines and trainings: their common layout, and the responses and images shown."""
