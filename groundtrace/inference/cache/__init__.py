"""The reply cache: on one machine, shared by several machines, and what both are made of."""
