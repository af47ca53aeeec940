"""Contains the embedded engine: a program that answers prompts with OpenCV, without a model.

It is a kind of endpoint, and can take every role (policy, teacher, pointer, judge, detector, segmenter) on the bundled
sample.
"""
