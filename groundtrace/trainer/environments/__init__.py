"""Defines the environments of rollouts, which answer the policy's turns with observations; each kind has a file."""
