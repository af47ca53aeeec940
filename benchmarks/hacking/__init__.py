"""Responses that try to earn a reward without the work, and the rewards that they earn; README.md describes them."""
