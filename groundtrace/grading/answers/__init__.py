"""Defines the types of answers: how an answer of each type is written, and how it is graded."""
