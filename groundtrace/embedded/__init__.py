"""Contains the embedded engine: a program that answers prompts with OpenCV, without a model.

The engine is one kind of endpoint: something to which requests for a model are sent. For the small sample data set that
is bundled with this project, the engine can do the job (role) of every model: policy, teacher, pointer, judge, detector
and segmenter.
"""
