"""Decides when requests are sent: concurrency, rate limits, budgets, retries and outages."""
