"""Validates a model during training: holds questions out, asks them at intervals, and computes the metrics."""
