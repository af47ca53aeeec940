"""Ships code to workers on other machines: as wheels, made for the run and staged with its job."""
