"""Answers and responses: how they are read, and how an answer is graded against the gold one."""
