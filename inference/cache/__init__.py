"""Replies kept: the store on one machine, the one several machines share, and what both are made of."""
