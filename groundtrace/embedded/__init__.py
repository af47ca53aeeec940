"""Contains the embedded engine: an endpoint kind that uses OpenCV instead of a model. It can take every role on the
bundled sample.
"""
