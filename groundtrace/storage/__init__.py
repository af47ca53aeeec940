"""Reads and writes files on this machine, in S3 and in Google Cloud Storage, through one interface."""
