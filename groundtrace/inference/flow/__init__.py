"""Concurrency, rate limits, budgets, retries and outages: when requests are sent."""
