"""What flows: records, geometry, Arrow schemas, and the parsing and grading of text. No model and no pixel."""
