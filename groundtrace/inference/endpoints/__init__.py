"""Holds one file for each kind of endpoint, and the code that several kinds share."""
