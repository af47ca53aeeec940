"""One file per kind of endpoint, and what they share."""
