"""One Beam transform a file."""
