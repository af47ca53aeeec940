"""The versioned prompt files and their loader."""
