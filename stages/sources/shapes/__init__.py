"""How the rows of an input are laid out, where a column map alone cannot say it."""
