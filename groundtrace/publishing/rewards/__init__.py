"""Provides Groundtrace's verifier (the code that scores responses) as a reward in other trainers.

There is a plug-in file for each trainer, and an HTTP server.
"""
