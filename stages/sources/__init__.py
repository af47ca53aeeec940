"""Input formats: from files to numbered raw records."""
