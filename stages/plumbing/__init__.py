"""The Beam code that the stages share."""
