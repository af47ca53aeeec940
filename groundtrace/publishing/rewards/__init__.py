"""The verifier as a reward in other trainers: one plug-in file for each trainer, and an HTTP server."""
