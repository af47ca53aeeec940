"""Files of this machine and of S3 and Google Cloud Storage, by one interface."""
