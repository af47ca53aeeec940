"""The reply cache: on one machine, or shared by several machines."""
