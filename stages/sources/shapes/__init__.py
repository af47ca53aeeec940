"""The layouts of an input's rows that a column map alone cannot describe."""
