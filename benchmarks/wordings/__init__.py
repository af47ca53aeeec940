"""Questions about the shapes of data/sample, and reasoning in many wordings, right or wrong by the gold boxes."""
