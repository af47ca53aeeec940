"""Faults and clean variations that a scripted teacher writes into traces that are right, by family."""
