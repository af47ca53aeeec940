"""A run's rows as other trainers and tools read them: one file a format."""
