"""Environments of rollouts: the policy's turns go in, observations come out; each kind is a file here."""
