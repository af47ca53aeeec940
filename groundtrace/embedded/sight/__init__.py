"""Reads images of flat coloured shapes with OpenCV and without a model.

A function that cannot read an image or a question returns None.
"""
