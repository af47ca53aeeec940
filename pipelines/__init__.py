"""One DAG a file, and the beam command that runs it."""
