"""Ships code to workers on other machines, as wheels that are made for the run and staged with its job."""
