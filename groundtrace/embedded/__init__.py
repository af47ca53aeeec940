"""The embedded engine: an endpoint kind that plays every role on the bundled sample without a model."""
