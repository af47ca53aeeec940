"""Validates a model during training: asks it questions that it is not trained on, and computes the metrics."""
