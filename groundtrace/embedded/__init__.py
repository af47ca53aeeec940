"""Contains the embedded engine: a program that answers prompts with OpenCV, without a model.

The engine is one kind of endpoint: something to which requests for a model are sent. For the small sample data set that
is bundled with this project, the engine can do the job (role) of every model: policy (answers questions), teacher
(writes reasoning), pointer (finds points on objects), judge (grades texts), detector (finds boxes) and segmenter (finds
the pixels of objects).
"""
