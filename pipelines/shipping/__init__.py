"""How code gets to workers on other machines: as wheels, made for the run and staged with its job."""
