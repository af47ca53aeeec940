"""Contains the shapes: layouts of input rows that need more than a map from fields to columns."""
