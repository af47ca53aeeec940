"""Defines the environments, which answer the policy's turns with observations. Each kind of environment has a file."""
