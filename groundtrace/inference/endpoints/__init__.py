"""One file per kind of endpoint, and the code that several kinds share."""
