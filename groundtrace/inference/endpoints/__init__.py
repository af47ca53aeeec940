"""Holds one file for each kind of endpoint (each way to reach a model), and the code that several kinds share."""
