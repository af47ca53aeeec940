"""Contains the Beam code that all stages use."""
