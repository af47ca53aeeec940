"""The Beam machinery that stages stand on."""
