"""Validates a model during training: asks questions that it is not trained on, and computes metrics of its answers."""
