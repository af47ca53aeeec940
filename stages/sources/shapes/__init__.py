"""The layouts of input rows that a column map alone cannot describe."""
