"""The verifier as a reward in other trainers: one file a trainer, and a server for those that ask over HTTP."""
