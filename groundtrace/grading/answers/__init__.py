"""Answers: their types, and how each is written and graded."""
