"""Contains the embedded engine: a program that answers prompts with OpenCV, without a model.

It is a kind of endpoint. For the small sample data set that is bundled with this project, it can take every role:
policy, teacher, pointer, judge, detector and segmenter.
"""
