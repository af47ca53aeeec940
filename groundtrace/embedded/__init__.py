"""The embedded engine: an endpoint kind that plays every role without a model, on the bundled sample."""
