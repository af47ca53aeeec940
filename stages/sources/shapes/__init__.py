"""Contains the shapes, i.e. the layouts of input rows that Groundtrace can read, such as the conversations of LLaVA."""
