"""One scorer a file: from a question and a response to a verdict."""
