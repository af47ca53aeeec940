"""Holds the Beam code that the stages share."""
