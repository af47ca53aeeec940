"""Scoring functions and their aggregation, used to curate and to train."""
