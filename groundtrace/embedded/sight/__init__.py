"""Reads images of flat coloured shapes with OpenCV and without a model, or returns None ("cannot read")."""
