"""Stores the replies of models, on one machine or shared by several machines."""
