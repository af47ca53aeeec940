"""Faults and clean variations, by family; a scripted teacher writes them into right traces."""
