"""Ships code to workers on other machines, as Python wheels that are made for a run and sent with its Beam job."""
