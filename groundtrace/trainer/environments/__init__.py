"""Defines the environments, which answer the turns of the model in training, e.g. with the results of its code."""
