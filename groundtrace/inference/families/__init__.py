"""One file per model family: how it writes coordinates, how it is asked to point and to box, how it is read."""
