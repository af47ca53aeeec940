"""Answers: their types, how each is written and graded."""
