"""Provides our verifier as a reward in other trainers, with a plug-in file for each trainer and an HTTP server."""
