"""Questions about the shapes of data/sample, and reasoning that is right or wrong in many wordings, by their boxes."""
