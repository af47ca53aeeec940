"""Reads and writes files on a local disk, in S3 and in Google Cloud Storage, through one interface."""
