"""Reads the responses of models: tags, times, thinking, answers, pointing replies, and turns with code."""
