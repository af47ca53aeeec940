"""The Beam code that all stages use."""
